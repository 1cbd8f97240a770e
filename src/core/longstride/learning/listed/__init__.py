"""Samples of a policy that scores a list of feasible actions, and the scales of their descriptions."""
