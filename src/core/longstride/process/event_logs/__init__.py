"""Event logs: reading them, in all their formats."""
