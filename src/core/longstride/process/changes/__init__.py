"""Changes of a scenario in words, such as ``people +1 analyst``."""
