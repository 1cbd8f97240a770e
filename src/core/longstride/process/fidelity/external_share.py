"""A sentence about the part of the cycle time that allocation can change."""

from collections.abc import Mapping
from statistics import fmean
from typing import Any

from longstride.process.scenario.scenario import HOURS_PER_UNIT, Scenario
from longstride.text import format_duration

_BOUND = "lower_bound"
_PARTS = {"mean_cycle_time", "mean_world_time", "mean_people_time", "mean_work_time"}


def external_share_sentence(policies: Mapping[str, list[dict[str, Any]]], scenario: Scenario) -> str | None:
    """Return a sentence about the shares of work, waiting for people and external delays in the cycle time.

    It describes the heuristic ``logged`` if that was played, else the first policy.

    Args:
        policies: metrics of the episodes by policy; with a lower bound, the sentence gives the largest possible change.
        scenario: scenario of the episodes.

    Returns:
        The sentence, or None for a scenario without external delays.
    """
    whole = {name: [r for r in records if r.keys() >= _PARTS] for name, records in policies.items()}
    names = [name for name, records in whole.items() if records]  # episodes without a finished case have no times
    if not names:
        return None
    name = "logged" if "logged" in names else names[0]
    cycle, external, people, work = (
        fmean(record[f"mean_{part}_time"] for record in whole[name]) for part in ("cycle", "world", "people", "work")
    )
    total = external + people + work
    if total <= 0.0:
        return None
    sentence = (
        f"Of the cycle time under {name}, {format_time(cycle, scenario)}, {work / total:.1%} is work, "
        f"{people / total:.1%} waits for people and {external / total:.1%} is external delay"
    )
    bound = [record["mean_cycle_time"] for record in policies.get(_BOUND, ()) if "mean_cycle_time" in record]
    if bound:
        most = max(cycle - fmean(bound), 0.0)
        sentence += f": allocation can change at most {format_time(most, scenario)} of {format_time(cycle, scenario)}"
        unexplained = unexplained_share(scenario) * external
        if unexplained > 0.005 * total:
            sentence += (
                f", or {format_time(most + unexplained, scenario)} if people cause all that the log leaves unexplained"
            )
    return sentence + "."


def unexplained_share(scenario: Scenario) -> float:
    """Return the share of external delays that the log does not prove to be external."""
    waiting = scenario.waiting
    if waiting is None or waiting.world <= 0.0:
        return 0.0
    return min(max(waiting.world - waiting.world_at_least, 0.0) / waiting.world, 1.0)


def format_time(time: float, scenario: Scenario) -> str:
    """Return a scenario's time as text; in hours from a quarter of an hour on, in days from two days on.

    Cases take minutes to months, so less than half a second is a rounding error.
    """
    if scenario.time_unit == "abstract":
        return f"{time:.4g}"
    hours = time * HOURS_PER_UNIT[scenario.time_unit]
    if hours >= 48.0:
        return f"{hours / 24.0:.1f} days"
    seconds = 3600.0 * hours
    return f"{hours:.1f} hours" if hours >= 0.25 else format_duration(seconds if seconds >= 0.5 else 0.0)
