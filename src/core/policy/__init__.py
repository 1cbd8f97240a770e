"""The policy: torch networks and their compiled copy for the CPU."""
