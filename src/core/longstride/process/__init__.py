"""The process product: simulators of business processes, mined from event logs, and tools that use them."""
