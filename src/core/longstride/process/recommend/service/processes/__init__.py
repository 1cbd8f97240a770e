"""The processes of the service: a master that keeps workers alive, and workers that answer requests."""
