"""What machine is here and how a run uses it."""
