"""People who do several tasks at once, in described states: the simulator has a slot for each of their tasks."""

from collections.abc import Mapping, Sequence

from longstride.errors import UserError
from longstride.process.scenario.at_once import slots_of
from longstride.process.scenario.scenario import Scenario
from longstride.process.snapshots.schema import ProcessState


def slots_by_person(scenario: Scenario) -> dict[str, list[str]]:
    """Return the slots of each person who has several; the first one has the person's name."""
    found: dict[str, list[str]] = {}
    for slot, name in slots_of(scenario).items():
        found.setdefault(name, [name]).append(slot)
    return found


def in_slots(state: ProcessState, slots: Mapping[str, Sequence[str]]) -> ProcessState:
    """Return a state of people as one of slots: each task in work has one, and those of a person are on shift together.

    Raises:
        UserError: a person has more tasks in work than the scenario allows.
    """
    if not slots:
        return state
    free, in_work = {name: list(own) for name, own in slots.items()}, []
    for i, task in enumerate(state.in_work):
        if task.person in free:
            if not free[task.person]:
                most = len(slots[task.person])
                raise UserError(
                    f"in_work[{i}]: {task.person} has more than {most} tasks in work, the most in the scenario."
                )
            task = task.model_copy(update={"person": free[task.person].pop(0)})
        in_work.append(task)
    changes = {slot: times for name, times in state.next_changes.items() for slot in slots.get(name, [name])}
    on_shift = None
    if state.on_shift is not None:
        on_shift = [slot for name in state.on_shift for slot in slots.get(name, [name])]
    return state.model_copy(update={"in_work": in_work, "next_changes": changes, "on_shift": on_shift})
