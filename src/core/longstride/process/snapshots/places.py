"""Places of tasks in the flow: nodes of an activity, and branches for which a join still waits."""

from collections.abc import Iterable

import numpy as np

from longstride.process.scenario.nodes import FORK, JOIN, TASK
from longstride.process.scenario.routing import Routing


class Places:
    """Nodes of each activity, in the order of the flow, and the fork branches that contain each of them.

    A list of cases has thousands of nodes of an activity, and a chain has no branches. No policy reads the node of a
    task there, so all nodes have place 0.

    Args:
        routing: flow of the scenario.
        activities: number of activities.
    """

    def __init__(self, routing: Routing, activities: int) -> None:
        self.nodes: list[list[int]] = [[] for _ in range(activities)]
        for node in _in_order(routing):
            if routing.kind[node] == TASK:
                self.nodes[routing.target[node]].append(node)
        for nodes in self.nodes:
            nodes[:] = nodes or [0]
        self.joins = len(routing.joins)
        self.has_branches = any(inside >= 0 for inside in routing.inside)
        if not self.has_branches:
            self.nodes = [nodes[:1] for nodes in self.nodes]
        self.place_of = {node: place for nodes in self.nodes for place, node in enumerate(nodes)}
        self._branches: dict[int, dict[int, int]] = {}
        self._sizes = routing.joins
        if self.has_branches:
            self._number_branches(routing)

    def joined(self, tokens: Iterable[tuple[int, int]]) -> np.ndarray:
        """Return int64[K, 3]: case, join, and the number of the case's branches that have reached it, at least one.

        A case has a task in each branch that has not reached the join, so all other branches have. ``tokens`` are case
        and node of all tasks that wait, rest or are in work.
        """
        left: dict[tuple[int, int], set[int]] = {}
        for case, node in tokens:
            for join, branch in self._branches.get(node, {}).items():
                left.setdefault((case, join), set()).add(branch)
        rows = [(case, join, self._sizes[join] - len(branches)) for (case, join), branches in left.items()]
        return np.array([row for row in rows if row[2] > 0], np.int64).reshape(-1, 3)

    def _number_branches(self, routing: Routing) -> None:
        """Note for each task its branch of each fork around it."""
        for fork, kind in enumerate(routing.kind):
            if kind == FORK:
                join = _join_of(routing, fork)
                for branch, first in enumerate(routing.successors[fork]):
                    for node in _before(routing, first, join):
                        self._branches.setdefault(node, {})[routing.target[join]] = branch


def _in_order(routing: Routing) -> list[int]:
    """Return the nodes in depth-first order from a case's first node."""
    found, stack = dict[int, None](), [routing.root]
    while stack:
        node = stack.pop()
        if node not in found:
            found[node] = None
            stack += reversed(routing.successors[node])
    return list(found)


def _join_of(routing: Routing, fork: int) -> int:
    """Return the join of a fork's branches; forks and joins in between come in pairs."""
    depth, node = 1, routing.successors[fork][0]
    while True:
        depth += (routing.kind[node] == FORK) - (routing.kind[node] == JOIN)
        if depth == 0:
            return node
        node = routing.successors[node][0]


def _before(routing: Routing, first: int, join: int) -> set[int]:
    """Return the nodes from ``first`` on that precede a join."""
    found, stack = set[int](), [first]
    while stack:
        node = stack.pop()
        if node != join and node not in found:
            found.add(node)
            stack += routing.successors[node]
    return found
