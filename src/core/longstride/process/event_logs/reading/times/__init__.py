"""Times of logs: layouts, zones and parsing."""
