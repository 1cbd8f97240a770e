"""Reinforcement-learning algorithms: advantages and loss as pure functions."""
