"""The flow of a case as a node table for compiled code.

A flow is a tree of ``seq``, ``xor``, ``and`` and ``task``, a first-order Markov chain over activities, a list of
cases, or one of these for each class of cases. All become nodes: TASK waits for a resource, XOR draws a branch, FORK
starts all branches, JOIN waits for all branches, END closes the case.
"""

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from longstride.errors import UserError
from longstride.process.scenario.classes import CLASSES, has_classes, parse_classes
from longstride.process.scenario.flow_parts import activity_in, probabilities_of, short, width_of_tree
from longstride.process.scenario.nodes import (
    END,
    FORK,
    JOIN,
    TASK,
    XOR,
    TemplateCase,
    TemplateTask,
    parse_cases,
    width_of,
)

_TOLERANCE = 1e-6
_MAX_DEPTH = 50
_MOST_SWEEPS = 1_000


@dataclass
class Routing:
    """The node table; probabilities are 1 except for XOR."""

    kind: list[int] = field(default_factory=list)  # kind of each node
    target: list[int] = field(default_factory=list)  # activity of a TASK, number of a JOIN, else -1
    successors: list[list[int]] = field(default_factory=list)  # next nodes of each node
    probabilities: list[list[float]] = field(default_factory=list)  # of the next nodes
    root: int = 0  # first node of a case
    joins: list[int] = field(default_factory=list)  # number of branches that each join waits for
    width: int = 1  # largest number of tasks of one case that can wait at once
    inside: list[int] = field(default_factory=list)  # innermost join around each node, -1 for none
    delay: list[float] = field(default_factory=list)  # open time before each TASK from the flow itself, 0 for none
    priority: list[int] = field(default_factory=list)  # priority of each node's case in queues
    value: list[float] = field(default_factory=list)  # value of each node's case, NaN for none
    mean_width: float = 1.0  # mean over the cases of the number in width
    depth: int = 0  # most nodes that one token can lead to at one time
    visits: list[float] = field(default_factory=list)  # expected visits of each node, if known without solving
    class_of: list[int] = field(default_factory=list)  # class of each node; -1 for the end and the root; empty: none

    def add(
        self, kind: int, target: int, successors: list[int], probabilities: list[float] | None = None, inside: int = -1
    ) -> int:
        """Append a node and return its index."""
        self.kind.append(kind)
        self.inside.append(inside)
        self.delay.append(0.0)
        self.priority.append(0)
        self.value.append(math.nan)
        self.target.append(target)
        self.successors.append(successors)
        self.probabilities.append(probabilities or [1.0] * len(successors))
        return len(self.kind) - 1

    def reachable(self) -> set[int]:
        """Return the nodes that a case can reach."""
        reached, frontier = {self.root}, [self.root]
        while frontier:
            for node in self.successors[frontier.pop()]:
                if node not in reached:
                    reached.add(node)
                    frontier.append(node)
        return reached

    def expected_visits(self) -> np.ndarray:
        """Return float64[N], the mean number of visits of a case to each node, by solving the flow equations.

        Raises:
            UserError: a case can reach an activity from which it never ends.
        """
        if self.visits:
            return np.array(self.visits)
        n, reached = len(self.kind), self.reachable()
        transition = np.zeros((n, n))
        for i in reached:
            successors, probabilities = self.successors[i], self.probabilities[i]
            share = 1.0 / self.joins[self.target[i]] if self.kind[i] == JOIN else 1.0
            for j, p in zip(successors, probabilities, strict=True):
                transition[i, j] += p * share
        start = np.zeros(n)
        start[self.root] = 1.0
        try:
            visits = np.linalg.solve(np.eye(n) - transition.T, start)
        except np.linalg.LinAlgError:
            visits = np.full(n, -1.0)
        if not np.all(np.isfinite(visits)) or visits.min() < -_TOLERANCE or visits.max() > 1e6:
            raise UserError("flow: a case can never end; give some activity on every path a way to null (the end).")
        return visits

    def visits_by_activity(self, activities: int) -> np.ndarray:
        """Return float64[A], the mean number of tasks of each activity in a case."""
        tasks = np.array(self.kind) == TASK
        return np.bincount(np.array(self.target)[tasks], self.expected_visits()[tasks], activities)

    def expected_work_ahead(self, work: np.ndarray) -> np.ndarray:
        """Return float64[A], the work that is expected from each activity on, for float64[A] work of each itself.

        Of parallel branches the longest counts, of several nodes of an activity their mean, of none its own work.
        """
        ahead = np.zeros(len(self.kind))
        for _ in range(_MOST_SWEEPS):
            previous = ahead.copy()
            for node, kind in enumerate(self.kind):
                branches = ahead[self.successors[node]]
                rest = branches.max(initial=0.0) if kind == FORK else branches @ self.probabilities[node]
                ahead[node] = rest + (work[self.target[node]] if kind == TASK else 0.0)
            if np.allclose(ahead, previous, rtol=1e-6, atol=0.0):
                break
        tasks = np.array(self.kind) == TASK
        activity = np.array(self.target)[tasks]
        totals, counts = np.bincount(activity, ahead[tasks], len(work)), np.bincount(activity, minlength=len(work))
        return np.where(counts > 0, totals / np.maximum(counts, 1), work)


def build_routing(flow: dict[str, Any], activities: list[str]) -> Routing:
    """Convert the flow of a scenario file to nodes.

    Raises:
        UserError: the flow is malformed; the message names the place.
    """
    if has_classes(flow):
        return _classes(flow, activities)
    routing, index = Routing(), {name: i for i, name in enumerate(activities)}
    end = routing.add(END, -1, [])
    if set(flow) == {"start", "next"}:
        _markov(routing, flow, index, end)
    elif set(flow) == {"cases"}:
        _cases(routing, *parse_cases(flow["cases"], index), end)
        return routing
    else:
        routing.root = _tree(routing, flow, index, end, "flow", 0, -1)
        routing.width = width_of_tree(flow)
    routing.mean_width, routing.depth = float(routing.width), len(routing.kind) + 1
    return routing


def _classes(flow: dict[str, Any], activities: list[str]) -> Routing:
    """Return the nodes of all classes, whose root draws the class; joins are shared by size and number.

    Raises:
        UserError: a class or its flow is malformed.
    """
    routing, columns, roots, probabilities = Routing(), dict[tuple[int, int], int](), list[int](), list[float]()
    routing.add(END, -1, [])
    routing.visits, routing.class_of, routing.width, routing.mean_width = [1.0], [-1], 1, 0.0
    for number, (name, p, own) in enumerate(parse_classes(flow[CLASSES])):
        try:
            part = build_routing(own, activities)
            visits = part.expected_visits()
        except UserError as error:
            raise UserError(f"flow.classes, {name!r}: {error}") from None
        shift = len(routing.kind) - 1  # the end, node 0 of each part, is common
        joins = _shared(part.joins, columns, routing.joins)
        for node in range(1, len(part.kind)):
            target = joins[part.target[node]] if part.kind[node] == JOIN else part.target[node]
            inside = joins[part.inside[node]] if part.inside[node] >= 0 else -1
            after = [n + shift if n else 0 for n in part.successors[node]]
            routing.add(part.kind[node], target, after, part.probabilities[node], inside)
            routing.delay[-1], routing.priority[-1] = part.delay[node], part.priority[node]
            routing.value[-1] = part.value[node]
        roots.append(part.root + shift if part.root else 0)
        probabilities.append(p)
        routing.visits += [p * float(v) for v in visits[1:]]
        routing.class_of += [number] * (len(part.kind) - 1)
        routing.width, routing.depth = max(routing.width, part.width), max(routing.depth, part.depth + 1)
        routing.mean_width += p * part.mean_width
    routing.root = routing.add(XOR, -1, roots, probabilities)
    routing.visits.append(1.0)
    routing.class_of.append(-1)
    return routing


def _shared(sizes: list[int], columns: dict[tuple[int, int], int], joins: list[int]) -> list[int]:
    """Return the common number of each join of a class; a case is of one class, so those of others can be used."""
    often = dict[int, int]()
    return [_join_number(size, often, columns, joins) for size in sizes]


def _join_number(size: int, often: dict[int, int], columns: dict[tuple[int, int], int], joins: list[int]) -> int:
    """Return the number of a further join of a size; ``often`` counts those of its case, or of its class, from 0."""
    often[size] = often.get(size, -1) + 1
    number = columns.setdefault((size, often[size]), len(joins))
    if number == len(joins):
        joins.append(size)
    return number


def _cases(routing: Routing, cases: list[TemplateCase], probabilities: list[float], end: int) -> None:
    """Add the nodes of a list of cases, the last task of each first; joins are shared by size and number."""
    columns: dict[tuple[int, int], int] = {}
    roots, widths = [], []
    routing.visits = [1.0]
    for case, p in zip(cases, probabilities, strict=True):
        before = len(routing.kind)
        roots.append(_case(routing, case.tasks, columns, end))
        routing.priority[before:] = [case.priority] * (len(routing.kind) - before)
        routing.value[before:] = [case.value] * (len(routing.kind) - before)
        routing.visits += [p] * (len(routing.kind) - before)
        routing.depth = max(routing.depth, len(routing.kind) - before + 2)
        widths.append(width_of(case.tasks))
    routing.root = roots[0] if len(roots) == 1 else routing.add(XOR, -1, roots, probabilities)
    routing.visits += [1.0] * (len(routing.kind) - len(routing.visits))
    routing.width, routing.mean_width = max(widths), float(np.dot(widths, probabilities))


def _case(routing: Routing, tasks: list[TemplateTask], columns: dict[tuple[int, int], int], end: int) -> int:
    """Add the nodes of one case and return the first."""
    followers: list[list[int]] = [[] for _ in tasks]
    for j, task in enumerate(tasks):
        for i in task.after:
            followers[i].append(j)
    often: dict[int, int] = {}

    def join(size: int, after: int) -> int:
        return routing.add(JOIN, _join_number(size, often, columns, routing.joins), [after])

    def all_of(nodes: list[int]) -> int:
        return nodes[0] if len(nodes) == 1 else routing.add(FORK, -1, nodes)

    last = sum(not f for f in followers)
    final = end if last == 1 else join(last, end)
    entry = [final] * len(tasks)
    for i in reversed(range(len(tasks))):
        node = routing.add(TASK, tasks[i].activity, [all_of([entry[j] for j in followers[i]] or [final])])
        routing.delay[node] = tasks[i].delay
        entry[i] = join(len(tasks[i].after), node) if len(tasks[i].after) > 1 else node
    return all_of([entry[i] for i, task in enumerate(tasks) if not task.after])


def _tree(routing: Routing, flow: Any, index: dict[str, int], after: int, where: str, depth: int, inside: int) -> int:
    """Add one element of a flow tree that continues at node ``after``; return its first node.

    ``inside`` is the number of the innermost join around it, -1 for none.
    """
    if depth > _MAX_DEPTH:
        raise UserError(f"{where}: the flow is nested more than {_MAX_DEPTH} deep.")
    if not isinstance(flow, dict) or len(flow) != 1 or next(iter(flow)) not in ("task", "seq", "xor", "and"):
        raise UserError(
            f"{where}: expected one of task, seq, xor, and (or start with next at the top), not {short(flow)}."
        )
    kind, content = next(iter(flow.items()))
    if kind == "task":
        return routing.add(TASK, index[activity_in(content, index, f"{where}.task")], [after], inside=inside)
    if not isinstance(content, list) or not content:
        raise UserError(f"{where}.{kind}: expected a list that is not empty, not {short(content)}.")

    def part(i: int, element: Any, after: int, inside: int) -> int:
        place = f"{where}.{kind}[{i}]" + ".branch" * (kind == "xor")
        return _tree(routing, element, index, after, place, depth + 1, inside)

    if kind == "seq":
        for i in reversed(range(len(content))):
            after = part(i, content[i], after, inside)
        return after
    if kind == "and":
        number = len(routing.joins)
        routing.joins.append(len(content))
        join = routing.add(JOIN, number, [after], inside=inside)
        return routing.add(FORK, -1, [part(i, c, join, number) for i, c in enumerate(content)])
    probabilities = probabilities_of(content, "branch", f"{where}.xor")
    return routing.add(XOR, -1, [part(i, c["branch"], after, inside) for i, c in enumerate(content)], probabilities)


def _markov(routing: Routing, flow: dict[str, Any], index: dict[str, int], end: int) -> None:
    """Add the nodes of ``{"start": [...], "next": {activity: [...]}}``."""
    if not isinstance(flow["next"], dict):
        raise UserError(f"flow.next: expected an object with a list for each activity, not {short(flow['next'])}.")
    tasks = {name: routing.add(TASK, i, []) for name, i in index.items()}

    def target(name: Any, where: str) -> int:
        return end if name is None else tasks[activity_in(name, index, where)]

    def draw(choices: Any, where: str) -> int:
        probabilities = probabilities_of(choices, "activity", where)
        targets = [target(choice["activity"], f"{where}[{i}].activity") for i, choice in enumerate(choices)]
        return targets[0] if len(targets) == 1 else routing.add(XOR, -1, targets, probabilities)

    routing.root = draw(flow["start"], "flow.start")
    for name, choices in flow["next"].items():
        activity_in(name, index, "flow.next")
        node = tasks[name]
        routing.successors[node] = [draw(choices, f"flow.next.{name}")]
        routing.probabilities[node] = [1.0]
    reached = routing.reachable()
    for name, node in tasks.items():
        if node in reached and not routing.successors[node]:
            raise UserError(f"flow.next: the entry for {name!r} is missing; null ends the case.")
