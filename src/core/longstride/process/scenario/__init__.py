"""Scenarios: what a process is made of, their files, the flow of a case, and the calendar."""
