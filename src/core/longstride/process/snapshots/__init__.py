"""The state of a running process, read from JSON or from a log of open cases, and written into the state record."""
