"""The number that keeps a transformer's normalisation finite."""

NORM_EPSILON = 1e-6
"""What is added to the mean square of a block's values, by whose root they are divided."""
