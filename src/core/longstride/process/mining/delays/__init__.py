"""Delays that no allocation can change (the literature: extraneous activity delays), estimated from a log."""
