"""Chooses how minibatch steps run."""
