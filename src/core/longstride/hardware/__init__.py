"""The machine: detection, sampling and planning."""
