"""Scenarios: the description of a process with its flow, its calendar and its checks."""
