"""The state of a process at one time, from outside: as JSON or as a log of open cases, and into the state record."""
