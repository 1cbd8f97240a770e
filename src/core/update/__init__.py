"""Improving the policy from a recorded rollout."""
