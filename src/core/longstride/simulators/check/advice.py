"""Hints about properties of a simulator that are no errors."""

import ast
import inspect
import re
import textwrap

import numpy as np

from longstride.simulators.check.instrumented_arrays import Hints
from longstride.simulators.check.source_location import plain
from longstride.simulators.compile_errors import place
from longstride.simulators.simulator import Function, Simulator
from longstride.simulators.spaces import Box
from longstride.text import format_bytes

_LARGE, _RATIO, _LONG = 1e6, 1e4, 1_000_000
_COSTS = re.compile(
    r"(?<![a-z])(costs?|lost|loss|losses|waits?|waiting|delays?|late|lateness|tardiness|makespan|backlog|errors"
    r"|failures|time|duration)(?![a-z])"
)
"""Words in the names of metrics of which less is usually better."""


def hint_at_scales(observations: np.ndarray, name: str, hints: Hints) -> None:
    """Add hints about observations, float32[steps, observation_size], that are large or of very different scales."""
    values = observations.astype(np.float64)
    largest, spread = np.abs(values).max(axis=0), values.std(axis=0)
    at = int(largest.argmax())
    if largest[at] > _LARGE:
        hints.add(
            f"{name}.observe wrote {largest[at]:.3g} at {at}; float32 keeps seven digits, so scale what is larger than "
            "a million."
        )
    moving = np.flatnonzero(spread > 1e-6 * largest)
    if len(moving) < 2:
        return
    wide, narrow = moving[spread[moving].argmax()], moving[spread[moving].argmin()]
    if spread[wide] > _RATIO * spread[narrow]:
        hints.add(
            f"{name}.observe writes very different scales: the standard deviation is {spread[wide]:.3g} at {wide} and "
            f"{spread[narrow]:.3g} at {narrow}; NORMALISE_OBSERVATIONS evens that out, without it scale them."
        )


def hint_at_unknown_numbers(simulator: Simulator, hints: Hints) -> None:
    """Add a hint where neither bounds nor a scale say how large usual numbers of an action are."""
    space = simulator.action_space
    if isinstance(space, Box) and space.scale is None and not space.squashed and not np.isfinite(space.bounds).all():
        at = int(np.flatnonzero(~np.isfinite(space.bounds).all(axis=0))[0])
        hints.add(
            f"{type(simulator).__name__}.action_space has no bounds on both sides at {at}: an untrained policy tries "
            f"numbers around {space.centre[at]:g}, mostly by less than 2 above or below; say how much usual numbers "
            "differ, Box(low, high, scale=[...]), or give bounds."
        )


def hint_at_unfilled_metrics(name: str, metrics: set[str], hints: Hints) -> None:
    """Add a hint about metrics that were not written, or stayed NaN or infinite, in all episodes."""
    if metrics:
        hints.add(
            f"{name}.episode_metrics gave no finite number to {', '.join(sorted(metrics))} in any episode that was "
            "played; such a number is left out of results, or is 0 if it is an integer."
        )


def hint_at_direction(simulator: Simulator, hints: Hints) -> None:
    """Add a hint if the main metric has the name of a cost, but nothing says whether lower is better."""
    metric, flag = simulator.main_metric, "main_metric_lower_is_better"
    said = any(flag in vars(part) for part in (simulator, *type(simulator).__mro__) if part is not Simulator)
    if metric and not said and _COSTS.search(metric.lower()):
        hints.add(
            f"{type(simulator).__name__}.main_metric {metric!r} counts as better if it is higher; set {flag} = True if "
            "lower is better, or False if not."
        )


def hint_at_endless_episodes(simulator: Simulator, played: int, hints: Hints) -> None:
    """Add a hint if nothing but a huge max_steps seems to end an episode: none did in the ``played`` steps."""
    if simulator.max_steps > _LONG:
        size = simulator.max_steps * (4 * simulator.observation_size + simulator.action_space.outputs + 32)
        hints.add(
            f"{type(simulator).__name__} ended no episode in {played} steps and max_steps is "
            f"{simulator.max_steps:,}: a recorded episode takes about {format_bytes(size)}; lower max_steps if no "
            "episode needs so many steps."
        )


def hint_at_compared_actions(step: Function, hints: Hints) -> None:
    """Add a hint for each line of ``step`` that compares the action for equality with a fraction."""
    function = plain(step)
    try:
        lines, first = inspect.getsourcelines(function)
        tree = ast.parse(textwrap.dedent("".join(lines)))
    except (OSError, TypeError, SyntaxError):  # no source, or not the source of one function
        return
    action = function.__code__.co_varnames[2]
    for node in ast.walk(tree):
        if not isinstance(node, ast.Compare) or not any(isinstance(op, (ast.Eq, ast.NotEq)) for op in node.ops):
            continue
        sides = [side.value if isinstance(side, ast.Subscript) else side for side in (node.left, *node.comparators)]
        fraction = any(isinstance(s, ast.Constant) and isinstance(s.value, float) and s.value % 1 for s in sides)
        if fraction and any(isinstance(side, ast.Name) and side.id == action for side in sides):
            where = place(function.__code__.co_filename, first + node.lineno - 1)
            hints.add(
                f"step asks whether the action equals a fraction ({where}); integers and float32 numbers hardly ever "
                "do, so compare with < and >."
            )
