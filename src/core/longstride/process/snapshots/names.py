"""The names of a scenario and their numbers in the simulator."""

from typing import NoReturn

from longstride.errors import UserError, suggestion
from longstride.process.simulator import ProcessSimulator
from longstride.process.snapshots.expected_duty import ExpectedDuty
from longstride.process.snapshots.places import Places
from longstride.process.snapshots.slots import slots_by_person
from longstride.process.snapshots.times import Where, at


class Names:
    """The names of a scenario, and defaults for the parts that a state may leave out.

    Args:
        simulator: process simulator.

    Attributes:
        scenario, sizes: those of the simulator.
        activities: name -> number of each activity.
        people: name -> number of each person.
        pairs: (activity, person) -> number of the pair, for those that are possible.
        automatic: whether each activity needs no person.
        places: nodes of the flow.
        slots: person -> the slots of one who does several tasks at once.
        duty: expected working week.
        classes: names of the classes of cases.
        class_of_node: class whose cases come to each node, -1 for all.
    """

    def __init__(self, simulator: ProcessSimulator) -> None:
        scenario, p = simulator.scenario, simulator.parameters
        self.scenario, self.sizes = scenario, simulator.sizes
        self.activities = {name: a for a, name in enumerate(scenario.activities)}
        self.people = {name: r for r, name in enumerate(scenario.resources)}
        self.slots = slots_by_person(scenario)
        numbers = zip(p.pair_activity.tolist(), p.pair_resource.tolist(), strict=True)
        self.pairs = {pair: i for i, pair in enumerate(numbers)}
        self.automatic = [kind >= 0 for kind in p.automatic_kind.tolist()]
        self.places = Places(simulator.routing, len(scenario.activities))
        self.duty = ExpectedDuty(scenario)
        self.classes, self.class_of_node = scenario.classes, p.class_of_node.tolist()


class UnknownNameError(UserError):
    """The error for a person or an activity that the scenario does not have."""


def unknown(name: str, known: dict[str, int], where: Where, what: str) -> NoReturn:
    """Raise the error for a name that the scenario does not have."""
    raise UnknownNameError(f"{at(where)}: the scenario has no {what} {name[:100]!r}{suggestion(name[:100], known)}")
