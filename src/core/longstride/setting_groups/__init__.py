"""The settings of a run in groups: name, type, default, bounds and meaning of each."""
