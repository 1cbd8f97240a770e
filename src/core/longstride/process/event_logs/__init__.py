"""Event logs: readers of all formats."""
