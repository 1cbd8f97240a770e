"""What --mode sweep does."""
