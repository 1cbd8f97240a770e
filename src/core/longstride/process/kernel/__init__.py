"""The compiled process simulator: state, parameters, dynamics, metrics and heuristics."""
