"""One file for each format; each returns a :class:`core.simulators.process.event_logs.reading.table.Table`."""
