"""Event logs: reading, and mining a scenario."""
