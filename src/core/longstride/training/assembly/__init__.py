"""From a Config to a run: the only place beside the commands that sees the whole Config."""
