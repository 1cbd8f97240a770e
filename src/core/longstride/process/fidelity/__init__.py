"""Mined scenarios beside their logs: distances, verdicts, and what an allocation can change."""
