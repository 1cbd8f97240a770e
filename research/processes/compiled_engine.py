"""The processes of ``unusual.py``, played thirty times as fast by compiled code: for averages of many runs.

With the cases of ``unusual.draw``, a run has the same mean cycle time, to rounding, where all people of an activity are
equal; who of several free ones takes a task is drawn by another generator. ``main`` shows that. Other cases of the same
distribution are drawn faster. ``shares``, ``least`` and ``turnover`` are not here; ``turnover`` is like ``minutes``.
Usage: python research/processes/compiled_engine.py [--seeds 1 2 3]      # mean cycle times of both engines, in hours
"""

import argparse
import math
import random
import sys
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numba import njit

sys.path.insert(0, str(Path(__file__).resolve().parent))

import unusual

MOST_WEEKS, MOST_ROUNDS = 120, 20
"""Weeks of duty that are planned, beyond which a run has no mean; most repetitions of a case."""

PLAYED = tuple(name for name in unusual.PROCESSES if name not in ("shares", "least", "turnover"))
"""Processes that are played."""


def main() -> None:
    """Print the mean cycle times of both engines."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    options = parser.parse_args()
    for name in PLAYED:
        for change in ("", "people +1", "arrivals +20%", "times -20%"):
            made = unusual.changed(name, change)
            most = 1.2 * unusual.changed(name, "")["a_week"]
            slow = [unusual.figures(unusual.Play(made | {"most": most}, s))["cycle"] for s in options.seeds]
            fast = [mean_cycle(made, same_cases(name, most, s), people_of(made), most, s) for s in options.seeds]
            both = "  ".join(f"{a:.9f} {b:.9f}" for a, b in zip(slow, fast, strict=True))
            print(f"{name:12} {change or 'unchanged':14} {both}", flush=True)


class Cases(NamedTuple):
    """Cases of a run at the highest rate; a task's order is a number, or nan for the time at which it is enabled."""

    arrival: np.ndarray  # float64[n], hours
    mark: np.ndarray  # float64[n], uniform numbers that decide which cases are kept
    first: np.ndarray  # int64[n + 1], first task of each case
    activity: np.ndarray  # int64[tasks]
    share: np.ndarray  # float64[tasks], time in mean times of the activity
    order: np.ndarray  # float64[tasks]
    before: np.ndarray  # int64[tasks], tasks that must end before
    next_first: np.ndarray  # int64[tasks + 1]
    following: np.ndarray  # int64[...], tasks that come after each


class People(NamedTuple):
    """Skills, capacities, and the moments at which people come and go."""

    skills: np.ndarray  # bool[people, activities]
    capacity: np.ndarray  # int64[people]
    at: np.ndarray  # float64[moments], hours, in order
    who: np.ndarray  # int64[moments]
    comes: np.ndarray  # bool[moments]


def mean_cycle(made: dict[str, Any], cases: Cases, people: People, most: float, seed: int) -> float:
    """Return the mean cycle time of the cases that are kept at the rate of a process, in hours."""
    work = np.array(list(made["work"].values()))
    kept = cases.mark < made["a_week"] / most
    return float(_play(kept, work, cases, people, seed))


def people_of(made: dict[str, Any]) -> People:
    """Return the people of a process."""
    activities, everybody = list(made["work"]), list(made["people"].values())
    moments = [
        (168.0 * week + 24.0 * day + hour, p, comes)
        for p, who in enumerate(everybody)
        for week in range(MOST_WEEKS)
        for day, begin, end in who["hours"][week % len(who["hours"])]
        for hour, comes in ((begin, True), (end, False))
    ]
    at, who, comes = zip(*sorted(moments), strict=True)
    skills = np.array([[a in person["jobs"][0][1] for a in activities] for person in everybody])
    capacity = np.array([person.get("capacity", 1) for person in everybody])
    return People(skills, capacity, np.array(at), np.array(who), np.array(comes))


def same_cases(name: str, most: float, seed: int) -> Cases:
    """Return the cases that ``unusual.draw`` draws, for a comparison of both engines."""
    made = unusual.changed(name, "") | {"a_week": most}
    arrivals, cases = unusual.draw(made, seed)
    marks, numbers = random.Random(f"{seed} marks"), {a: i for i, a in enumerate(made["work"])}
    first, rows, following = [0], [], list[list[int]]()
    for at, case in zip(arrivals, cases, strict=True):
        order = {"due_date": at + case["allowance"], "amount": -case["amount"]}.get(made.get("order", ""), math.nan)
        for task, ((activity, after), share) in enumerate(zip(case["tasks"], case["luck"], strict=True)):
            rows.append((numbers[activity], share, order, len(after)))
            following.append([first[-1] + j for j, (_, others) in enumerate(case["tasks"]) if task in others])
        first.append(len(rows))
    activity, share, order, before = (np.array(column) for column in zip(*rows, strict=True))
    ends = np.cumsum([0, *map(len, following)])
    flat = np.array([task for tasks in following for task in tasks], np.int64)
    kept = np.array([marks.random() for _ in arrivals])
    return Cases(np.array(arrivals), kept, np.array(first), activity, share, order, before, ends, flat)


@lru_cache(maxsize=2000)
def cases_of(name: str, again: float | None, most: float, seed: int) -> Cases:
    """Return cases of the same distribution, drawn faster; with another probability of a repetition if it is given.

    Processes of other probabilities and rates share the random numbers.
    """
    made, rng = unusual.changed(name, ""), np.random.default_rng(seed)
    hours = np.cumsum(rng.exponential(50.0 / most, int(1.5 * most * unusual.WEEKS)))
    day, hour = np.divmod(hours[hours < 50.0 * unusual.WEEKS], 10.0)
    arrival = day // 5 * 168 + day % 5 * 24 + 8 + hour
    count, activities = len(arrival), list(made["work"])
    if name == "chats":
        columns, here = ["Chat", "Solve"], np.ones((count, 2), np.bool_)
    elif name == "branches":
        columns, here = ["Register", "Assess", "Clarify", "Verify", "Decide"], np.ones((count, 5), np.bool_)
    else:
        columns = ["Register", "Assess", *["Clarify", "Assess"] * MOST_ROUNDS, "Decide"]
        again = made["again"] if again is None else again
        repeated = rng.random((count, MOST_ROUNDS)) < again / made["fewer"] ** np.arange(MOST_ROUNDS)
        repeated = np.repeat(np.cumprod(repeated, 1).astype(np.bool_), 2, 1)
        always = np.ones((count, 1), np.bool_)
        here = np.hstack([always, always, repeated, always])
    share = rng.exponential(1.0, here.shape)
    amount, allowance = np.exp(rng.normal(*unusual.AMOUNTS, count)), rng.choice([24.0, 72.0, 168.0], count)
    order = {"due_date": arrival + allowance, "amount": -amount}.get(made.get("order", ""), np.full(count, np.nan))
    if made.get("order") == "amount":
        share *= amount[:, None]
    tasks = here.sum(1)
    first = np.concatenate([[0], np.cumsum(tasks)])
    before, next_first, following = _in_order(name, first)
    activity = np.broadcast_to([activities.index(a) for a in columns], here.shape)[here]
    mark = rng.random(count)
    return Cases(arrival, mark, first, activity, share[here], np.repeat(order, tasks), before, next_first, following)


def _in_order(name: str, first: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return for each task how many come before, the first of its following tasks, and these, of ``Cases``."""
    total = int(first[-1])
    if name == "branches":  # one, three at once, one
        before, tasks = np.tile([0, 1, 1, 1, 3], total // 5), np.tile([3, 1, 1, 1, 0], total // 5)
        following = (first[:-1, None] + np.array([1, 2, 3, 4, 4, 4])).ravel()
    else:
        before, tasks = np.ones(total, np.int64), np.ones(total, np.int64)
        before[first[:-1]], tasks[first[1:] - 1] = 0, 0
        following = np.flatnonzero(tasks) + 1
    return before, np.concatenate([[0], np.cumsum(tasks)]), following


@njit(cache=True)
def _push(keys: np.ndarray, ties: np.ndarray, what: np.ndarray, size: int, key: float, tie: int, value: int) -> None:
    """Add to a binary heap of ``size`` entries in the order of (key, tie)."""
    i = size
    while i > 0:
        up = (i - 1) // 2
        if keys[up] < key or (keys[up] == key and ties[up] < tie):
            break
        keys[i], ties[i], what[i] = keys[up], ties[up], what[up]
        i = up
    keys[i], ties[i], what[i] = key, tie, value


@njit(cache=True)
def _pop(keys: np.ndarray, ties: np.ndarray, what: np.ndarray, size: int) -> int:
    """Remove the first entry of a binary heap of ``size`` entries, and return its value."""
    found, last = what[0], size - 1
    key, tie, value = keys[last], ties[last], what[last]
    i = 0
    while 2 * i + 1 < last:
        down = 2 * i + 1
        right = down + 1
        if right < last and (keys[right] < keys[down] or (keys[right] == keys[down] and ties[right] < ties[down])):
            down = right
        if key < keys[down] or (key == keys[down] and tie < ties[down]):
            break
        keys[i], ties[i], what[i] = keys[down], ties[down], what[down]
        i = down
    keys[i], ties[i], what[i] = key, tie, value
    return found


@njit(cache=True)
def _play(kept: np.ndarray, work: np.ndarray, cases: Cases, people: People, seed: int) -> float:
    """Return the mean cycle time of a run."""
    np.random.seed(seed)
    tasks, count = len(cases.activity), len(people.capacity)
    case_of, left, waits = np.zeros(tasks, np.int64), np.zeros(len(kept), np.int64), cases.before.copy()
    for i in range(len(kept)):
        left[i] = cases.first[i + 1] - cases.first[i]
        case_of[cases.first[i] : cases.first[i + 1]] = i
    room, queued = tasks + 1, np.zeros(len(work), np.int64)
    keys, ties, what = (
        np.empty((len(work), room)),
        np.empty((len(work), room), np.int64),
        np.empty((len(work), room), np.int64),
    )
    end_keys, end_ties, end_what, ends = np.empty(room), np.empty(room, np.int64), np.empty(room, np.int64), 0
    doer, on, busy, free = np.zeros(tasks, np.int64), np.zeros(count, np.bool_), np.zeros(count, np.int64), 0
    enabled, total, number, open_cases = np.empty(tasks, np.int64), 0.0, 0, int(kept.sum())
    able, arrived, moment = np.empty(count, np.int64), 0, 0
    while open_cases > 0:
        while arrived < len(kept) and not kept[arrived]:
            arrived += 1
        next_case = cases.arrival[arrived] if arrived < len(kept) else np.inf
        next_end = end_keys[0] if ends > 0 else np.inf
        now, begun = min(next_case, next_end, people.at[moment]), 0
        if now == people.at[moment]:
            on[people.who[moment]] = people.comes[moment]
            moment += 1
            if moment == len(people.at):
                return np.nan
        elif now == next_case:
            for task in range(cases.first[arrived], cases.first[arrived + 1]):
                if waits[task] == 0:
                    enabled[begun] = task
                    begun += 1
            arrived += 1
        else:
            done = _pop(end_keys, end_ties, end_what, ends)
            ends -= 1
            busy[doer[done]] -= 1
            case = case_of[done]
            left[case] -= 1
            if left[case] == 0:
                open_cases -= 1
                total += now - cases.arrival[case]
            for j in range(cases.next_first[done], cases.next_first[done + 1]):
                waits[cases.following[j]] -= 1
                if waits[cases.following[j]] == 0:
                    enabled[begun] = cases.following[j]
                    begun += 1
        for j in range(begun):
            task, number = enabled[j], number + 1
            a, order = cases.activity[task], cases.order[task]
            _push(keys[a], ties[a], what[a], queued[a], now if np.isnan(order) else order, number, task)
            queued[a] += 1
        while True:
            best, chosen = -1, -1
            for a in range(len(work)):
                if queued[a] > 0 and (
                    best < 0
                    or keys[a, 0] < keys[best, 0]
                    or (keys[a, 0] == keys[best, 0] and ties[a, 0] < ties[best, 0])
                ):
                    least, free = np.int64(1000), 0
                    for p in range(count):
                        if on[p] and people.skills[p, a] and busy[p] < people.capacity[p] and busy[p] <= least:
                            free = free if busy[p] == least else 0
                            least = busy[p]
                            able[free] = p
                            free += 1
                    if free > 0:
                        best, chosen = a, able[np.random.randint(free)]
            if best < 0:
                break
            task = _pop(keys[best], ties[best], what[best], queued[best])
            queued[best] -= 1
            doer[task] = chosen
            busy[chosen] += 1
            _push(end_keys, end_ties, end_what, ends, now + work[best] * cases.share[task], task, task)
            ends += 1
    return total / kept.sum()


if __name__ == "__main__":
    main()
