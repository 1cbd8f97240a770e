"""What a log shows of the time that no allocation can change, and how a scenario states it."""
