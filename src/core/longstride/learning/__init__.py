"""Improves a policy from a rollout."""
