"""The processes of the service: a master that keeps workers alive, and the workers, which answer."""
