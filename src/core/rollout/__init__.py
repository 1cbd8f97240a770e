"""Playing and recording episodes."""
