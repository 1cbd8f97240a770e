"""A CUDA card that is not there, for tests of the GPU path."""
