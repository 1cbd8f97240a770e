"""Inventory problems whose optimum is known: ``LostSales`` and ``BaseStock``."""

from longstride.simulators.inventory.base_stock import BaseStock
from longstride.simulators.inventory.lost_sales import LostSales

__all__ = ["BaseStock", "LostSales"]
