"""People who do several tasks at once, each at full speed, such as an agent with three chats: one resource for each.

A scenario names them in ``at_once``: person -> tasks. The simulator has a resource for each of these tasks, called a
slot. The first slot has the name of the person, the others follow all people. Slots are on duty together.
"""

from typing import Any

from longstride.process.scenario.scenario import Scenario

_SLOT = "{} · task {}"


def slots_of(scenario: Scenario) -> dict[str, str]:
    """Return the further slots of a scenario's people, slot -> person; they may be among its resources already."""
    return {
        _SLOT.format(name, number): name for name, most in scenario.at_once.items() for number in range(2, most + 1)
    }


def with_slots(scenario: Scenario) -> Scenario:
    """Return a scenario whose resources are slots, with the same ``at_once``; the same one if it has them already.

    A slot costs the share of its person's rate, and has done the share of its person's events in the log.
    """
    slots = slots_of(scenario)
    if not slots or set(slots) <= set(scenario.resources):
        return scenario
    most, own = scenario.at_once, list(slots.items())
    service = []
    for entry in scenario.service:
        seen = entry.observations
        share = {} if seen is None else {"observations": -(-seen // most.get(entry.resource, 1))}
        names = [entry.resource, *(slot for slot, name in own if name == entry.resource)]
        service += [entry.model_copy(update={"resource": name, **share}) for name in names]
    absences = [
        entry.model_copy(update={"person": s}) for s, name in own for entry in scenario.absences if entry.person == name
    ]
    changes: dict[str, Any] = {"resources": [*scenario.resources, *slots], "service": service}
    for key in ("working_hours", "rosters"):
        plans = getattr(scenario, key)
        changes[key] = plans | {slot: plans[name] for slot, name in own if name in plans}
    changes["absences"] = [*scenario.absences, *absences]
    if costs := scenario.aims.costs:
        people = [*scenario.resources, *slots]
        rates = costs.rates([slots.get(name, name) for name in people])
        shares = {n: rate / most.get(slots.get(n, n), 1) for n, rate in zip(people, rates, strict=True)}
        changes["aims"] = scenario.aims.model_copy(update={"costs": costs.model_copy(update={"per_hour": shares})})
    return scenario.model_copy(update=changes)


def without_slots(scenario: Scenario) -> Scenario:
    """Return the scenario of which :func:`with_slots` made this one, for changes of its people."""
    slots = set(slots_of(scenario))
    if not slots or not slots <= set(scenario.resources):
        return scenario
    most = scenario.at_once
    changes: dict[str, Any] = {
        "resources": [name for name in scenario.resources if name not in slots],
        "absences": [entry for entry in scenario.absences if entry.person not in slots],
        "service": [
            entry.model_copy(
                update={"observations": entry.observations and entry.observations * most.get(entry.resource, 1)}
            )
            for entry in scenario.service
            if entry.resource not in slots
        ],
    }
    for key in ("working_hours", "rosters"):
        changes[key] = {name: plans for name, plans in getattr(scenario, key).items() if name not in slots}
    if costs := scenario.aims.costs:
        rates = {name: rate * most.get(name, 1) for name, rate in costs.per_hour.items() if name not in slots}
        changes["aims"] = scenario.aims.model_copy(update={"costs": costs.model_copy(update={"per_hour": rates})})
    return scenario.model_copy(update=changes)
