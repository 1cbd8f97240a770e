"""Multilayer perceptrons that read a summary, and one small network that scores each feasible action."""
