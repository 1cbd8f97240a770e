"""One file for each format; each returns a :class:`longstride.simulators.process.event_logs.reading.table.Table`."""
