"""The policy that a run ends with, by evidence."""
