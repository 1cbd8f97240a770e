"""One file for each format; each returns a :class:`longstride.process.event_logs.reading.table.Table`."""
