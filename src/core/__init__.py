"""Longstride: a trainer for policies on long, single-stream simulations."""

__version__ = "0.1.0"
