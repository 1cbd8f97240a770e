"""What a report shows of a process: people, queues and cases in episodes that are played for it."""
