"""Losses together with their derivatives by the networks' outputs, in few launches."""
