"""Policies: parameters, torch form, distributions."""
