"""``--mode front``: the Pareto front of two metrics of a process, of trained policies and of rules."""
