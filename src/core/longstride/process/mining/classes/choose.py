"""Chooses the classes of a log's cases, and says in sentences what depends on them."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from longstride.errors import UserError
from longstride.process.event_logs.case_classes import CaseClasses
from longstride.process.event_logs.event_log import EventLog
from longstride.process.event_logs.reading.attributes import Attribute
from longstride.process.mining.classes.evidence import DELAY, ROUTING, SERVICE, Facts, Finding, facts_of, find_evidence
from longstride.process.mining.classes.groups import Groups, groups_of
from longstride.process.mining.classes.split import split_log
from longstride.process.mining.mine_scenario import automatic_activities
from longstride.text import scale_of

AUTO = "auto"
"""Value of CLASSES for which the log decides."""

_MOST_TIMES = 5
"""Times named in a sentence."""


def with_classes(log: EventLog, attributes: Sequence[Attribute], wanted: str) -> EventLog:
    """Return a log whose activities are split by the classes of its cases; the log itself if nothing depends on any.

    Args:
        log: event log.
        attributes: attributes of its cases.
        wanted: the column of the classes, or ``auto``: the attribute with the largest gain of those that show some.

    Raises:
        UserError: the named column has only one value.
    """
    facts, is_auto = facts_of(log), wanted == AUTO
    tried: list[tuple[float, Attribute, Groups, list[Finding]]] = []
    for attribute in attributes:
        groups = groups_of(attribute.name, [attribute.values.get(name, "") for name in log.cases])
        if groups is None or (is_auto and not attribute.is_constant):
            continue
        found = find_evidence(facts, groups)
        if found or not is_auto:
            tried.append((sum(finding.gain for finding in found), attribute, groups, found))
    if not tried and not is_auto:
        raise UserError(f"CLASSES is {wanted!r}, but all cases have the same value there.")
    if not tried:
        note = f"Classes of cases: none. No attribute of {len(attributes)} changes routing or times in held-out cases."
        return replace(log, notes=(*log.notes, note))
    _, attribute, groups, found = max(tried, key=lambda each: each[0])
    others = [each[1].name for each in tried if each[1] is not attribute]
    notes = _notes(facts, attribute, groups, found, others)
    people = (log.resource >= 0).astype(np.int64)
    automatic = automatic_activities(log) | (np.bincount(log.activity, people, len(log.activities)) == 0)
    differs = {log.activities[finding.activity] for finding in found if finding.aspect == SERVICE}
    pooled = frozenset(name for name in log.activities if name not in differs)
    classes = CaseClasses(groups.names, groups.of_case, pooled=pooled, notes=tuple(notes))
    return split_log(log, classes, automatic)


def _notes(facts: Facts, attribute: Attribute, groups: Groups, found: list[Finding], others: list[str]) -> list[str]:
    """Return sentences about the classes and what depends on them."""
    shares = np.bincount(groups.of_case, minlength=len(groups.names)) / len(groups.of_case)
    listed = ", ".join(f"{name} ({100.0 * share:.0f} %)" for name, share in zip(groups.names, shares, strict=True))
    notes = [f"Classes of cases by {attribute.name!r}: {listed}. Each activity of people has a queue for each class."]
    if not attribute.is_constant:
        notes.append(f"Some cases have several values of {attribute.name!r}; the first one counts.")
    if not found:
        notes.append(
            f"Neither routing nor times are shown to depend on {attribute.name!r}; classes share their service times."
        )
    notes += [
        f"Routing depends on {attribute.name!r}: held-out cases are likelier by {finding.gain:.2f} ± "
        f"{2 * finding.error:.2f} nats each if each class has its own."
        for finding in found
        if finding.aspect == ROUTING
    ]
    for aspect, what in ((SERVICE, "service"), (DELAY, "proven external delay before")):
        of = [_times(facts, groups, finding, what) for finding in found if finding.aspect == aspect]
        if of:
            more = f"; and {len(of) - _MOST_TIMES} more" if len(of) > _MOST_TIMES else ""
            notes.append(f"Times depend on {attribute.name!r}: {'; '.join(of[:_MOST_TIMES])}{more}.")
    if others:
        shown = ", ".join(map(repr, others[:_MOST_TIMES]))
        notes.append(f"Other attributes that show less: {shown}. --classes COLUMN chooses one of them.")
    return notes


def _times(facts: Facts, groups: Groups, finding: Finding, what: str) -> str:
    """Return the mean times of the classes, such as ``service of Assess 31 min for gold, 22 min for plain``."""
    scale = scale_of("hours", float(np.nanmean(finding.means)))
    means = [
        f"{scale.show(float(mean))} for {name}"
        for name, mean in zip(groups.names, finding.means, strict=True)
        if np.isfinite(mean)
    ]
    joined = f"{what} of" if finding.aspect == SERVICE else what
    return f"{joined} {facts.log.activities[finding.activity]} {', '.join(means)}"
