"""The mode ``train``."""
