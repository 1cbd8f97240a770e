"""What --mode plan does."""
