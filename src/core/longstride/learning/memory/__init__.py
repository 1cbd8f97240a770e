"""What an update needs for a policy with memory: chunks of steps, values in order."""
