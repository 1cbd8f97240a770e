"""What --mode ab does."""
