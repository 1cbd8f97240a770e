"""Gymnasium environments as simulators, and simulators as Gymnasium environments."""
