"""A policy's recommendation, with its reasons in figures, as JSON values."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from longstride.process.scenario.at_once import slots_of
from longstride.process.simulator import ProcessSimulator
from longstride.text import scale_of

MOST_ALTERNATIVES = 3
"""Number of other people listed for a task."""

DRAWN = "This choice is a draw with the probabilities: an evaluation has shown draws to be better for this policy."

POSTPONE = "Assign nothing now; ask again when a person becomes free, comes or goes, or when a task begins to wait."

NOTHING = "No free person can do a waiting task, so there is nothing to decide."


@dataclass(frozen=True)
class Advice:
    """A recommendation.

    Attributes:
        action: number of the chosen action of the simulator, the number of pairs for postpone; -1 if no free person can
            do a waiting task.
        recommended: person, activity and case of the chosen assignment; None to assign nothing.
        assignments: feasible assignments as JSON values, the recommended one first, then by falling probability.
        feasible: number of feasible assignments, which may exceed the number of listed ones.
        postpone: probability of assigning nothing.
        heuristics: heuristic -> person, activity and case that it would choose, or None for nothing.
        unit: unit of the times; empty if the scenario has none.
        memory: memory to pass with the next state, for a policy with memory; otherwise empty.
        drawn: whether the action was drawn with its probability; otherwise it is the most likely one.
    """

    action: int
    recommended: dict[str, str] | None
    assignments: list[dict[str, Any]]
    feasible: int
    postpone: float
    heuristics: dict[str, dict[str, str] | None]
    unit: str
    memory: str
    drawn: bool = False

    def as_json(self) -> dict[str, Any]:
        """Return the JSON values of the answer."""
        return {
            "recommended": self.recommended,
            "words": self.words,
            "assignments": self.assignments,
            "feasible": self.feasible,
            "postpone": {"probability": self.postpone, "meaning": POSTPONE},
            "heuristics": self.heuristics,
            "time_unit": self.unit,
            "action": self.action,
            "drawn": self.drawn,
            "memory": self.memory,
        }

    @property
    def words(self) -> str:
        """The recommendation as a sentence."""
        if not self.feasible:
            return NOTHING
        if self.recommended is None:
            return POSTPONE
        return "{person} should do {activity} of case {case}.".format(**self.recommended)


class Reasons:
    """Describes pairs of a scenario in the state of the simulator's record.

    The methods take ``state``, the arrays of the record by name, and the names of its cases.

    Args:
        simulator: process simulator.
    """

    def __init__(self, simulator: ProcessSimulator) -> None:
        p, scenario = simulator.parameters, simulator.scenario
        slots = slots_of(scenario)
        self._activities, self._people = scenario.activities, [slots.get(name, name) for name in scenario.resources]
        self._activity_of, self._person_of = p.pair_activity.tolist(), p.pair_resource.tolist()
        self._service, self._size = p.pair_mean.tolist(), p.batch_size.tolist()
        self._able: list[list[int]] = [[] for _ in self._activities]  # pairs of each activity, the fastest first
        for pair in np.lexsort((p.pair_mean, p.pair_activity)).tolist():
            self._able[self._activity_of[pair]].append(pair)
        self.unit = "" if scenario.time_unit == "abstract" else scenario.time_unit

    def named(self, state: Mapping[str, np.ndarray], pair: int, cases: list[str]) -> dict[str, str] | None:
        """Return person, activity and case of a feasible pair, None for postpone."""
        if pair == len(self._service):
            return None
        activity = self._activity_of[pair]
        case = cases[state["slot_case"][state["queue_head"][activity]]]
        return {
            "person": self._people[self._person_of[pair]],
            "activity": self._activities[activity],
            "case": case,
        }

    def by_person(self, pairs: Iterable[int]) -> dict[int, list[int]]:
        """Return the pairs of each person and activity, which are several for one who does several tasks at once.

        The key is the first of them.
        """
        found: dict[tuple[str, int], list[int]] = {}
        for pair in pairs:
            found.setdefault((self._people[self._person_of[pair]], self._activity_of[pair]), []).append(pair)
        return {own[0]: own for own in found.values()}

    def of(
        self, state: Mapping[str, np.ndarray], pair: int, probability: float, cases: list[str], chosen_by: list[str]
    ) -> dict[str, Any]:
        """Return a feasible pair with its probability and figures, and the heuristics that choose it."""
        activity = self._activity_of[pair]
        slot, now, available = state["queue_head"][activity], state["time"], state["available"].tolist()
        case, able = int(state["slot_case"][slot]), self._able[activity]
        others = self._others(available, pair)
        free = sum([available[self._person_of[other]] for other in others])
        figures = {
            "person": self._people[self._person_of[pair]],
            "activity": self._activities[activity],
            "case": cases[case],
            "together": [cases[other] for other in self._further(state, activity, int(slot))],
            "probability": probability,
            "chosen_by": chosen_by,
            "waited": float(now - state["slot_enabled"][slot]),
            "case_age": float(now - state["arrival_time"][case]),
            "queue": int(state["queue_length"][activity]),
            "service_time": self._service[pair],
            "fastest_service_time": self._service[able[0]],
            "others": len(others),
            "free_others": free,
            "alternatives": [self._alternative(state, other) for other in others[:MOST_ALTERNATIVES]],
        }
        return {**figures, "reason": self._batch(activity, len(figures["together"])) + self._sentence(figures)}

    def _others(self, available: list[int], pair: int) -> list[int]:
        """Return the pair of each other person who can do the activity, the fastest first; of several a free one."""
        found: dict[str, int] = {}
        for other in self._able[self._activity_of[pair]]:
            r = self._person_of[other]
            name = self._people[r]
            if name not in found or (available[r] and not available[self._person_of[found[name]]]):
                found[name] = other
        del found[self._people[self._person_of[pair]]]
        return list(found.values())

    def _further(self, state: Mapping[str, np.ndarray], activity: int, slot: int) -> Iterator[int]:
        """Yield the cases of a batch after its first task, which has a slot."""
        while self._size[activity] > 1 and (slot := int(state["slot_member"][slot])) >= 0:
            yield int(state["slot_case"][slot])

    def _batch(self, activity: int, further: int) -> str:
        """Return a sentence about the tasks of a batch; nothing for an activity without batches."""
        size = self._size[activity]
        return f"{1 + further} of at most {size} tasks begin together. " if size > 1 else ""

    def _alternative(self, state: Mapping[str, np.ndarray], pair: int) -> dict[str, Any]:
        r = self._person_of[pair]
        status = "free" if state["available"][r] else "busy" if state["busy_pair"][r] >= 0 else "off shift"
        return {"person": self._people[r], "service_time": self._service[pair], "status": status}

    def _sentence(self, figures: dict[str, Any]) -> str:
        """Return the figures as a sentence."""
        mean, count = figures["service_time"], figures["others"]
        first = f", the first of {figures['queue']:,}" if figures["queue"] > 1 else ""
        text = f"It has waited {self._time(figures['waited'])}{first}; {figures['person']} needs {self._time(mean)}"
        if not count:
            return f"{text} and is the only one who can do it."
        best = figures["alternatives"][0]
        other = f"{best['person']}, who is {best['status']}, needs {self._time(best['service_time'])}"
        faster = "the fastest other" if mean <= best["service_time"] else "the fastest"
        return f"{text}; {figures['free_others']:,} of {count:,} others are free; {faster}, {other}."

    def _time(self, value: float) -> str:
        return scale_of(self.unit, value).show(value, 3)
