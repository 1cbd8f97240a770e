"""Policies and heuristics compared on the same random streams."""
