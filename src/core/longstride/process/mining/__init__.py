"""Mining: from an event log to a scenario."""
