"""Inventory problems whose optimum is known: ``LostSales`` and ``BaseStock``."""

from core.simulators.inventory.base_stock import BaseStock
from core.simulators.inventory.lost_sales import LostSales

__all__ = ["BaseStock", "LostSales"]
