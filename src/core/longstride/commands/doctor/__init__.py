"""What --mode doctor does."""
