"""Compiled kernels that outlive a process: what they are recognised by, where they lie, how Numba finds them."""
