"""Kernels: each compiled as one unit, and kept on disk."""
