"""The iteration loop and what a run needs around it."""
