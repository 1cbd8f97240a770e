"""A layer that reads the observation, then blocks of attention to the last observations and of a perceptron."""
