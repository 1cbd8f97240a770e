"""Measurements: scripts, and what they share. A package, so that another one of this name cannot take its place."""
