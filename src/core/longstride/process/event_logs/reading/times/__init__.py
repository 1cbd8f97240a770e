"""Times of logs: their layouts, their zones, and how they are read."""
