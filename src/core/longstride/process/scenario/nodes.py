"""Kinds of nodes of a flow, and flows that list cases: each simulated case follows one of them, with its delays.

``{"cases": [{"weight": 2, "tasks": [{"task": "Check"}, {"task": "Decide", "delay": 3.5}]}]}``: a task begins after
the tasks in ``after`` (numbers from 0; by default the previous task) and after its delay, in open time. Tasks of a case
with a higher ``priority`` (0 by default) come first in their queues. What its ``value`` does is in ``case_values``.
"""

import math
from dataclasses import dataclass
from typing import Any

from longstride.errors import UserError

TASK, XOR, FORK, JOIN, END = range(5)

MOST_PRIORITY = 1_000
"""Highest priority of a case."""

_KEYS = {"weight", "priority", "value", "tasks"}


@dataclass(frozen=True)
class TemplateTask:
    """A task of a case."""

    activity: int
    delay: float
    after: tuple[int, ...]  # numbers of its predecessors


@dataclass(frozen=True)
class TemplateCase:
    """A case that simulated ones follow."""

    tasks: list[TemplateTask]
    priority: int
    value: float  # NaN for none


def parse_cases(cases: Any, index: dict[str, int]) -> tuple[list[TemplateCase], list[float]]:
    """Return the cases of a flow, and the probability of each.

    Raises:
        UserError: an entry is malformed; the message names the place.
    """
    if not isinstance(cases, list) or not cases:
        raise UserError("flow.cases: expected a list of cases that is not empty.")
    parsed, weights = [], []
    for c, case in enumerate(cases):
        where = f"flow.cases[{c}]"
        if not isinstance(case, dict) or "tasks" not in case or not set(case) <= _KEYS:
            raise UserError(f"{where}: expected the keys tasks and, if needed, weight, priority and value.")
        weights.append(_number(case.get("weight", 1.0), f"{where}.weight"))
        if not isinstance(case["tasks"], list) or not case["tasks"]:
            raise UserError(f"{where}.tasks: expected a list of tasks that is not empty.")
        tasks = [_task(task, i, index, f"{where}.tasks[{i}]") for i, task in enumerate(case["tasks"])]
        value = _number(case["value"], f"{where}.value", -1e300) if "value" in case else math.nan
        parsed.append(TemplateCase(tasks, _priority(case.get("priority", 0), f"{where}.priority"), value))
    total = sum(weights)
    if total <= 0.0:
        raise UserError("flow.cases: the weights must not all be zero.")
    return parsed, [weight / total for weight in weights]


def _task(task: Any, place: int, index: dict[str, int], where: str) -> TemplateTask:
    if not isinstance(task, dict) or "task" not in task or not set(task) <= {"task", "delay", "after"}:
        raise UserError(f"{where}: expected the key task and, if needed, delay and after.")
    if not isinstance(task["task"], str) or task["task"] not in index:
        raise UserError(f"{where}.task: {str(task['task'])[:60]!r} is not one of the scenario's activities.")
    after = task.get("after", [place - 1] if place else [])
    if not isinstance(after, list) or any(type(i) is not int or not 0 <= i < place for i in after):
        raise UserError(f"{where}.after: expected numbers of earlier tasks of the case, 0 to {place - 1}.")
    if len(set(after)) != len(after):
        raise UserError(f"{where}.after: a task is named twice.")
    return TemplateTask(index[task["task"]], _number(task.get("delay", 0.0), f"{where}.delay"), tuple(after))


def _priority(value: Any, where: str) -> int:
    if type(value) is not int or not 0 <= value <= MOST_PRIORITY:
        raise UserError(f"{where}: expected a whole number from 0 to {MOST_PRIORITY}, not {str(value)[:60]!r}.")
    return value


def _number(value: Any, where: str, least: float = 0.0) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value < max(1e12, -least):
        kind = "a number" if least else "a number that is not negative"
        raise UserError(f"{where}: expected {kind}, not {str(value)[:60]!r}.")
    return float(value)


def width_of(tasks: list[TemplateTask]) -> int:
    """Return an upper bound of the number of tasks of a case that can wait at once."""
    depth: list[int] = []
    for task in tasks:
        depth.append(1 + max((depth[i] for i in task.after), default=0))
    return len(tasks) - max(depth) + 1
