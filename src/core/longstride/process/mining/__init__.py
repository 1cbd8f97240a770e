"""Mining of a scenario from an event log."""
