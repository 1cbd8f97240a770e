"""Turns a log file into checked records, one job per file; ``read_records`` calls the jobs in order."""
