"""Policies on the CPU, compiled by Numba; no torch here."""
