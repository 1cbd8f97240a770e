"""Comparison of mined scenarios with their logs: distances, verdicts, and the potential of allocation."""
