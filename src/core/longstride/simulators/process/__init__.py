"""The flagship simulator: who works on which case next."""
