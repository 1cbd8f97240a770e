"""Other people and arrivals in the arrays of a simulator: many processes for one compiled kernel.

A kernel is compiled for the sizes of the arrays. So a removed person stays in them, but is never on duty. The
heuristics never postpone, so they play the same episodes as without this person. A policy that postpones would decide
again at each shift of the removed person.
"""

import copy
from collections.abc import Collection

import numpy as np

from longstride.process.scenario.at_once import slots_of
from longstride.process.simulator import ProcessSimulator


def without_people(simulator: ProcessSimulator, gone: Collection[str]) -> ProcessSimulator:
    """Return a copy of a simulator in which some people are never on duty; its figures of utilisation are wrong.

    Args:
        simulator: simulator whose arrays are copied, not changed.
        gone: names of the people.
    """
    changed = copy.copy(simulator)
    p = changed.parameters = simulator.parameters.copy()
    slots = slots_of(simulator.scenario)
    for r, name in enumerate(simulator.scenario.resources):
        if slots.get(name, name) in gone:
            p["on_duty_at_start"][r] = 0
            p["first_change"][r] = p["second_change"][r] = float("inf")
            p["shift_on"][p["shift_resource"] == r] = 0
            first, last = p["roster_first"][p["roster_days"] * np.array([r, r + 1])]
            p["roster_mask"][first:last] = 0
    return changed


def with_arrivals(simulator: ProcessSimulator, factor: float) -> ProcessSimulator:
    """Return a copy of a simulator with another rate of arrivals, at most the present one: ``factor`` in (0, 1]."""
    changed = copy.copy(simulator)
    p = changed.parameters = simulator.parameters.copy()
    p["arrival_rates"] *= factor
    return changed
