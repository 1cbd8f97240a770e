"""Exploring starts: instances that begin from states of the run, chosen for variety."""
