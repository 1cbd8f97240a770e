"""Plans how a run uses a machine: pure functions."""
