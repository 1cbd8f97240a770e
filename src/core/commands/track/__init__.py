"""What --mode track does."""
