"""Minibatch steps on the CPU as a few compiled kernels in place of torch's many operations."""
