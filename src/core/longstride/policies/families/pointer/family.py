"""Perceptrons whose outputs encode the observation for the scores of the feasible actions (policies/candidates.py)."""

from longstride.policies.families.mlp.family import build_network, matrices
from longstride.policies.spec import Family

POINTER = Family("pointer", matrices, build_network, scores_actions=True)
