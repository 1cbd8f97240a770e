"""``--mode recommend``: who should do what next in a running process, as a table, as JSON, and as a service."""
