"""The mode ``evaluate``."""
