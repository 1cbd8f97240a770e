"""A generated log with two classes of cases, whose routing and service times differ, and columns that mean nothing."""

import heapq
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np

MEANS = {"Check": (0.3, 0.3), "Assess": (0.6, 1.2), "Review": (0.5, 0.5), "Decide": (0.4, 0.4)}
"""Mean service times of a plain and of a gold case, in hours."""

SKILLS = {"Check": ("Ann", "Bob", "Cid"), "Assess": ("Ann", "Bob"), "Review": ("Cid",), "Decide": ("Bob", "Cid")}
GOLD, ASSESSED, REVIEWED = 0.3, 0.5, 0.8
"""Share of gold cases; probability of Assess for plain cases (gold ones have it), and of Review for gold ones."""

OPEN_HOURS = 10.0
"""Hours of a day with work by day."""

ALLOWANCE = {"gold": 6.0, "plain": 48.0}
"""Hours from arrival to the due date."""


def write_log(path: Path, cases: int, seed: int, by_day: bool = False) -> np.ndarray:
    """Write a log as CSV and return bool[cases], whether each case is gold.

    People work around the clock, or ``by_day`` from 8 to 18; then tasks rest over night, and times are in open hours.
    """
    rng = np.random.default_rng(seed)
    arrivals, gold = np.cumsum(rng.exponential(1.0, cases)), rng.random(cases) < GOLD
    colours = rng.choice(["red", "green", "blue"], cases)
    amounts = rng.integers(1, 100_000, cases)
    paths = [_path(bool(is_gold), rng) for is_gold in gold]
    free, rows = dict.fromkeys(("Ann", "Bob", "Cid"), 0.0), []
    waiting = [(time, case, 0) for case, time in enumerate(arrivals.tolist())]
    heapq.heapify(waiting)
    while waiting:
        ready, case, k = heapq.heappop(waiting)
        activity = paths[case][k]
        person = min(SKILLS[activity], key=lambda name: (max(free[name], ready), rng.random()))
        start = max(free[person], ready)
        free[person] = start + MEANS[activity][int(gold[case])] * rng.lognormal(-0.125, 0.5)
        rows.append((start, case, activity, person, free[person]))
        if k + 1 < len(paths[case]):
            heapq.heappush(waiting, (free[person], case, k + 1))
    lines = ["case,activity,resource,start,end,segment,colour,amount,promised"]
    for start, case, activity, person, end in sorted(rows):
        segment = "gold" if gold[case] else "plain"
        due = _moment(arrivals[case] + ALLOWANCE[segment], by_day)
        cells = (
            f"c{case}",
            activity,
            person,
            _moment(start, by_day),
            _moment(end, by_day),
            segment,
            colours[case],
            amounts[case],
            due,
        )
        lines.append(",".join(map(str, cells)))
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return gold


def _path(is_gold: bool, rng: np.random.Generator) -> list[str]:
    assessed = is_gold or rng.random() < ASSESSED
    reviewed = is_gold and rng.random() < REVIEWED
    return ["Check", *(["Assess"] * assessed), *(["Review"] * reviewed), "Decide"]


def _moment(hours: float, by_day: bool) -> str:
    if by_day:
        day, hour = divmod(hours, OPEN_HOURS)
        hours = 24.0 * day + 8.0 + hour
    return (datetime(2026, 1, 5) + timedelta(hours=hours)).isoformat(timespec="seconds")
