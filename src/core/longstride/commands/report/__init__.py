"""The mode ``report``."""
