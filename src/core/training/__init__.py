"""The episode loop and what it leaves behind."""
