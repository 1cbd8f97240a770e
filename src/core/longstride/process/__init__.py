"""The process product: a business process as a simulator, mined from an event log, compared with it, and asked."""
