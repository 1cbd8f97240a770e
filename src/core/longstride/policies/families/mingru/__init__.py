"""A layer that reads the observation, then minimal gated recurrent units, which remember."""
