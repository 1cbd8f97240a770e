"""``--mode recommend``: recommended assignments in a running process, as a table, as JSON, and as a service."""
