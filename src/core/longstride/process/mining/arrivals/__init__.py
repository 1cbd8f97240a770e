"""Arrivals of cases in a log, seen or not."""
