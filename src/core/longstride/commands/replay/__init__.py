"""The mode ``replay``."""
