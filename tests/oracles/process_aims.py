"""What an episode of the slow reference costs, from the lists of its cases, its tasks and its people's minutes."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from oracles.process_reference import MINUTES_PER_WEEK, Reference, child, uniform

from longstride.process.scenario.scenario import Scenario

DUE_STREAM = 2**36


@dataclass
class Begun:
    """A task that a person has begun."""

    case: int
    activity: str
    person: str
    enabled: float
    started: float


@dataclass
class Bill:
    """Amounts of a whole episode: times in time units, the rest in numbers and money."""

    begun: list[Begun] = field(default_factory=list)

    def amounts(self, reference: Reference) -> dict[str, float]:
        """Return the amount of each quantity, and the cases beyond the target."""
        return self.weighted(reference, {})

    def weighted(self, reference: Reference, weights: dict[str, float]) -> dict[str, float]:
        """Return the same where each case counts as often as its class says; costs and overtime are those of people."""
        of = {case.number: weights.get(case.of_class, 1.0) for case in reference.cases}
        return {
            "cycle_time": sum(of[case.number] * (_end(reference, case) - case.arrival) for case in reference.cases),
            "tardiness": sum(of[c.number] * max(0.0, _end(reference, c) - due(reference, c)) for c in reference.cases),
            "late": sum(of[case.number] * (_end(reference, case) > due(reference, case)) for case in reference.cases),
            "cost": self._cost(reference),
            "waiting": self._waiting(reference, of),
            "handovers": self._handovers(of),
            "overtime": sum(_off_duty(reference, name, a, b) for name, a, b in _work(reference)),
            "beyond": sum(_end(reference, c) > c.arrival + _within(reference) for c in reference.cases),
        }

    def _cost(self, reference: Reference) -> float:
        costs, hour = reference.scenario.aims.costs, reference.hour if reference.hour == reference.hour else 1.0
        rates = {name: costs.per_hour.get(name, costs.everyone) / hour for name in reference.resources}
        paid = sum(rates[name] * (b - a) for name, a, b in _work(reference))
        if costs.paid == "on duty":  # and at work beyond it
            on = {name: reference._time_on_duty(person) for name, person in reference.resources.items()}
            over = sum(rates[name] * _off_duty(reference, name, a, b) for name, a, b in _work(reference))
            paid = sum(rates[name] * on[name] for name in on) + over
        return paid + sum(costs.per_task.get(task.activity, 0.0) for task in self.begun)

    def _waiting(self, reference: Reference, of: dict[int, float]) -> float:
        queues = reference.queues.values()
        waits = sum(of[task.case.number] * (reference.now - task.enabled) for queue in queues for task in queue)
        return waits + sum(of[task.case] * (task.started - task.enabled) for task in self.begun)

    def _handovers(self, of: dict[int, float]) -> float:
        last: dict[int, str] = {}
        count = 0.0
        for task in self.begun:
            count += of[task.case] * (last.get(task.case, task.person) != task.person)
            last[task.case] = task.person
        return count


def step(reference: Reference, bill: Bill, action: int) -> float:
    """Make a step of the reference and note the task that it begins."""
    if action < len(reference.pairs):
        activity, person = reference.pairs[action]
        task = reference.queues[activity][0]
        bill.begun.append(Begun(task.case.number, activity, person, task.enabled, reference.now))
    return reference.step(action)


def due(reference: Reference, case: Any) -> float:
    """Return the due date of a case."""
    dates = reference.scenario.aims.due
    dates = dates.by_class.get(case.of_class, dates)
    if dates.after is not None:
        return float(case.arrival + dates.after)
    if dates.each is not None:
        return float(case.arrival + dates.each[case.number])
    u = float(uniform(child(case.stream, DUE_STREAM)))
    return float(case.arrival + np.interp(u, np.linspace(0.0, 1.0, len(dates.quantiles)), dates.quantiles))


def weighed(scenario: Scenario, amounts: dict[str, float], hour: float) -> float:
    """Return the sum of the amounts times the weights of the objective, times in hours."""
    times = {"cycle_time", "tardiness", "waiting", "overtime"}
    return sum(w * amounts[q] / (hour if q in times else 1.0) for q, w in scenario.aims.objective.items())


def _end(reference: Reference, case: Any) -> float:
    return float(reference.now if case.completion is None else case.completion)


def _within(reference: Reference) -> float:
    return float(reference.scenario.aims.target.within)


def _work(reference: Reference) -> list[tuple[str, float, float]]:
    """Return person, start and end of each stretch of work."""
    done = [(r.name, a, b) for r in reference.resources.values() for a, b in r.worked]
    return done + [(r.name, r.started, reference.now) for r in reference.resources.values() if r.task]


def _off_duty(reference: Reference, name: str, start: float, end: float) -> float:
    """Return how much of a stretch of time lies outside of a person's working hours."""
    if name not in reference.scenario.working_hours:
        return 0.0
    minutes, minute = reference.resources[name].minutes, reference.hour / 60.0
    total = 0.0
    for m in range(int(start / minute), int(end / minute) + 1):
        overlap = min(end, (m + 1) * minute) - max(start, m * minute)
        total += max(overlap, 0.0) * (not minutes[m % MINUTES_PER_WEEK])
    return total
