"""The likely positions of a case in the flow after some events, found by playing the flow with tokens.

A case may be in several places at once, one for each parallel branch. Each choice in the flow has a probability, so the
events determine the probabilities of the choices that led to them.
"""

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from longstride.process.scenario.nodes import END, FORK, JOIN, TASK, XOR
from longstride.process.scenario.routing import Routing

_MOST_MARKINGS = 5_000
"""Most markings of a case that are followed, the likeliest ones; a list of cases may have more."""


class Marking(NamedTuple):
    """A position of a case in the flow."""

    tasks: tuple[int, ...]  # nodes of the tasks that wait, rest or are in work, in order
    joined: tuple[tuple[int, int], ...]  # join and branches that have reached it, in order
    busy: tuple[int, ...] = ()  # nodes of tasks that are known to be in work, and not among the others


Markings = dict[Marking, float]
"""Possible positions of a case, with probabilities that add up to 1."""


class LikelyTasks:
    """Follows cases through a flow.

    Args:
        routing: flow of the scenario.
    """

    def __init__(self, routing: Routing) -> None:
        self._routing = routing
        self._ways = [_merged(list(self._arrive(routing.root, (), (), 1.0)))]  # markings after each path
        self._further: dict[tuple[int, int], int] = {}  # path number, activity -> number of the longer path
        self._next: dict[int, Markings] = {}

    def after(self, activities: tuple[int, ...]) -> Markings:
        """Return the markings after some activities in order; empty if no path leads there."""
        way = 0
        for last in activities:
            if (way, last) not in self._further:
                before = self._ways[way].items()
                self._further[way, last] = len(self._ways)
                self._ways.append(_merged([pair for at, p in before for pair in self._complete(at, last, p)]))
            way = self._further[way, last]
        return self._ways[way]

    def after_one(self, activity: int) -> Markings:
        """Return the markings after an activity for any path before it, for cases on a path that the flow lacks."""
        if activity not in self._next:
            routing, found = self._routing, list[tuple[Marking, float]]()
            visits = routing.expected_visits()
            for node, kind in enumerate(routing.kind):
                if kind == TASK and routing.target[node] == activity and visits[node] > 0.0:
                    found += self._complete(Marking((node,), ()), activity, float(visits[node]))
            # A branch that waits at a join for other branches does not determine the tasks after the join.
            self._next[activity] = _merged([(at, p) for at, p in found if at.tasks or not at.joined])
        return self._next[activity]

    def in_work(self, markings: Markings, activities: list[int]) -> Markings:
        """Return the markings in which some activities can be in work, with these tasks in ``busy``; empty for none."""
        found = []
        for marking, p in markings.items():
            left, wanted, busy = list(marking.tasks), Counter(activities), list[int]()
            for node in marking.tasks:
                if wanted[self._routing.target[node]] > 0:
                    wanted[self._routing.target[node]] -= 1
                    left.remove(node)
                    busy.append(node)
            if not +wanted:
                found.append((Marking(tuple(left), marking.joined, tuple(busy)), p))
        return _merged(found)

    def _complete(self, marking: Marking, activity: int, p: float) -> Iterator[tuple[Marking, float]]:
        """Yield the markings after the task of an activity, for each different node of the activity."""
        routing = self._routing
        nodes = {node for node in marking.tasks if routing.target[node] == activity}
        for node in sorted(nodes):
            left = list(marking.tasks)
            left.remove(node)
            yield from self._arrive(routing.successors[node][0], tuple(left), marking.joined, p / len(nodes))

    def _arrive(
        self, node: int, tasks: tuple[int, ...], joined: tuple[tuple[int, int], ...], p: float
    ) -> Iterator[tuple[Marking, float]]:
        """Yield the markings after a token enters a node, with the case's other tasks."""
        routing = self._routing
        kind, successors = routing.kind[node], routing.successors[node]
        if kind == TASK:
            yield Marking(tuple(sorted((*tasks, node))), joined), p
        elif kind == END:
            yield Marking(tasks, joined), p
        elif kind == XOR:
            for successor, share in zip(successors, routing.probabilities[node], strict=True):
                if share > 0.0:
                    yield from self._arrive(successor, tasks, joined, p * share)
        elif kind == FORK:
            ways = [(Marking(tasks, joined), p)]
            for successor in successors:
                ways = [way for at, q in ways for way in self._arrive(successor, at.tasks, at.joined, q)]
            yield from ways
        elif kind == JOIN:
            counts = dict(joined)
            join = routing.target[node]
            counts[join] = counts.get(join, 0) + 1
            if counts[join] == routing.joins[join]:
                del counts[join]
                yield from self._arrive(successors[0], tasks, tuple(sorted(counts.items())), p)
            else:
                yield Marking(tasks, tuple(sorted(counts.items()))), p


def _merged(found: list[tuple[Marking, float]]) -> Markings:
    """Return markings with the sums of their probabilities, which add up to 1; the likeliest if there are many."""
    sums: Markings = {}
    for marking, p in found:
        sums[marking] = sums.get(marking, 0.0) + p
    if len(sums) > _MOST_MARKINGS:
        sums = dict(sorted(sums.items(), key=lambda item: -item[1])[:_MOST_MARKINGS])
    total = sum(sums.values())
    return {marking: p / total for marking, p in sums.items()}
