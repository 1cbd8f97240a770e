"""Business processes of unusual kinds with a known truth, played event by event; independent of Longstride.

An engine for ``counterfactuals.py``. Times are hours since a Monday 00:00. A case draws its path, its times and its
attributes from a stream of its own, so changed processes meet the same cases. Kinds: ``chats`` (three tasks at full
speed each), ``shares`` (three tasks that share the time), ``due``, ``value`` and ``least`` (order of service by a
column of the log), ``sundays``, ``rota`` (early and late weeks), ``minutes`` (whole minutes), ``completions`` (the same
without starts), ``turnover`` (one leaves, one is hired, one changes jobs), ``rework`` (fewer repetitions each round),
``branches`` (parallel tasks).
Usage: python research/processes/unusual.py FOLDER [--process chats ...] [--seeds 1 2]     # FOLDER/chats_1.csv, ...
"""

import argparse
import csv
import heapq
import math
import random
from copy import deepcopy
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

MONDAY = datetime(2024, 1, 1)
WEEKS = 27
AMOUNTS = (-0.18, 0.6)
"""Mean and standard deviation of the logarithm of the amounts."""
Made = dict[str, Any]
Week = list[tuple[int, int, int]]


def hours(begin: int = 9, end: int = 17, days: tuple[int, ...] = (0, 1, 2, 3, 4)) -> Week:
    """Return the hours of a week as (day, begin, end)."""
    return [(day, begin, end) for day in days]


def plain() -> Made:
    """Oldest task first, equal people, exponential times; analysts are busy 0.8 of their time.

    The hours of a person are a list of weeks that repeat. ``jobs`` are (day of the beginning, skills). An assessment is
    repeated with probability ``again``, which each repetition divides by ``fewer``.
    """

    def path(rng: random.Random, made: Made) -> list[tuple[str, tuple[int, ...]]]:
        steps, again = ["Register", "Assess"], made["again"]
        while rng.random() < again:
            steps, again = [*steps, "Clarify", "Assess"], again / made["fewer"]
        return chain([*steps, "Decide"])

    people = group("clerk", 3, {"Register", "Clarify"}) | group("analyst", 5, {"Assess"})
    work = {"Register": 0.5, "Assess": 1.6, "Clarify": 0.4, "Decide": 0.5}
    made = {"people": people | group("manager", 2, {"Decide"}), "work": work, "path": path, "a_week": 75.0}
    made |= {"again": 0.25, "fewer": 1.0}
    return made | {"busy": "Assess", "like": "analyst 3"}


def group(name: str, count: int, skills: set[str], **more: Any) -> Made:
    """Return equal people, numbered from 1."""
    return {f"{name} {i}": {"jobs": [(0, skills)], "hours": [hours()]} | more for i in range(1, count + 1)}


def chain(steps: list[str]) -> list[tuple[str, tuple[int, ...]]]:
    """Return tasks, each after the one before."""
    return [(activity, (i - 1,) if i else ()) for i, activity in enumerate(steps)]


def chats() -> Made:
    """Two agents have up to three chats open and work on each at full speed."""
    agents = group("agent", 2, {"Chat"}, capacity=3)
    made = {"people": agents | group("expert", 2, {"Solve"}), "work": {"Chat": 2.6, "Solve": 0.6}}
    path = lambda rng, made: chain(["Chat", "Solve"])  # noqa: E731
    return made | {"path": path, "a_week": 75.0, "busy": "Chat", "like": "agent 1"}


def shares() -> Made:
    """Two agents have up to three chats open, and their time is shared by these."""
    made = chats()
    made["work"]["Chat"] = 0.86
    return made | {"shared": True}


def due() -> Made:
    """The task whose case is due first comes first; the log has a column of due dates."""
    return plain() | {"order": "due_date"}


def value() -> Made:
    """The case of the largest amount comes first; large ones take longer. The log has a column of amounts."""
    return plain() | {"order": "amount"}


def least() -> Made:
    """Of the assessments, the one of the smallest amount comes first, of equal ones the oldest; amounts are rough."""
    return plain() | {"order": "amount", "only": ["Assess"], "step": 0.5}


def sundays() -> Made:
    """One analyst also works on one Sunday in six weeks, one at hours of their own."""
    made = plain()
    made["people"]["analyst 1"]["hours"] = [*[hours()] * 5, [*hours(), (6, 10, 16)]]
    made["people"]["analyst 2"]["hours"] = [hours(7, 15)]
    return made


def rota() -> Made:
    """Analysts work early in one week and late in the next."""
    made = plain()
    for i in range(1, 6):
        weeks = [hours(6, 14), hours(12, 20)]
        made["people"][f"analyst {i}"]["hours"] = weeks if i % 2 else weeks[::-1]
    return made


def minutes() -> Made:
    """Times of the log are whole minutes."""
    return plain() | {"minutes": True}


def completions() -> Made:
    """The log has whole minutes, and only when tasks were completed."""
    return plain() | {"minutes": True, "starts": False}


def turnover() -> Made:
    """One analyst leaves after 13 weeks, another one comes; a clerk becomes an analyst when a third one leaves."""
    made, leaving = plain(), 13 * 7
    made["people"]["analyst 1"]["jobs"].append((leaving, set()))
    made["people"]["analyst 6"] = {"jobs": [(0, set()), (leaving, {"Assess"})], "hours": [hours()]}
    made["people"]["analyst 2"]["jobs"].append((18 * 7, set()))
    made["people"]["clerk 1"]["jobs"].append((18 * 7, {"Assess"}))
    made["people"]["clerk 4"] = {"jobs": [(0, set()), (18 * 7, {"Register", "Clarify"})], "hours": [hours()]}
    return made


def rework() -> Made:
    """The first assessment is repeated in half of the cases, the second in a quarter, ..."""
    return plain() | {"again": 0.5, "fewer": 2.0, "a_week": 62.0}


def branches() -> Made:
    """After the registration, three tasks are done in any order or at once; the decision needs them all."""

    def path(rng: random.Random, made: Made) -> list[tuple[str, tuple[int, ...]]]:
        return [("Register", ()), ("Assess", (0,)), ("Clarify", (0,)), ("Verify", (0,)), ("Decide", (1, 2, 3))]

    made = plain() | {"path": path}
    made["people"] |= group("clerk", 3, {"Register", "Clarify", "Verify"})
    made["work"] |= {"Assess": 2.1, "Verify": 0.3}
    return made


PROCESSES = {
    made.__name__: made
    for made in (chats, shares, due, value, least, sundays, rota, minutes, completions, turnover, rework, branches)
}
MORE = {name: made()["like"] for name, made in PROCESSES.items()}
"""Whom the added person is like."""


def changed(name: str, change: str, **values: Any) -> Made:
    """Return a process with other values and a change; none for an empty one."""
    made = PROCESSES[name]() | values
    if change == "people +1":
        made["people"][MORE[name].rsplit(" ", 1)[0] + " 99"] = deepcopy(made["people"][MORE[name]])
    elif change.startswith("arrivals"):
        made["a_week"] *= 1.0 + float(change.split()[1].rstrip("%")) / 100.0
    elif change.startswith("times"):
        made["work"] = made["work"] | {made["busy"]: made["work"][made["busy"]]}
        made["work"][made["busy"]] *= 1.0 + float(change.split()[1].rstrip("%")) / 100.0
    return made


def draw(made: Made, seed: int) -> tuple[list[float], list[Made]]:
    """Return the arrivals and the cases of a run; with ``most``, arrivals of that rate, of which a share is kept."""
    most, marks = made.get("most", made["a_week"]), random.Random(f"{seed} marks")
    drawn = enumerate(arrival_times(most, random.Random(f"{seed} arrivals")))
    kept = [(i, at) for i, at in drawn if "most" not in made or marks.random() < made["a_week"] / most]
    return [at for _, at in kept], [draw_case(made, random.Random(f"{seed} case {i}")) for i, _ in kept]


def draw_case(made: Made, rng: random.Random) -> Made:
    """Draw a case: its tasks with their shares of the mean time, and its attributes."""
    tasks = made["path"](rng, made)
    luck = [rng.expovariate(1.0) for _ in tasks]
    amount, allowance = math.exp(rng.gauss(*made.get("amounts", AMOUNTS))), rng.choice([24.0, 72.0, 168.0])
    if "step" in made:
        amount = max(round(amount / made["step"]), 1) * made["step"]
    if made.get("order") == "amount":
        luck = [amount * part for part in luck]
    waits = [len(after) for _, after in tasks]
    return {"tasks": tasks, "luck": luck, "amount": amount, "allowance": allowance, "waits": waits}


class Play:
    """One run; ``events`` are (case, activity, person, start, end).

    With ``most`` arrivals are drawn at that rate, of which a share is kept: processes of different rates share cases.
    """

    def __init__(self, made: Made, seed: int) -> None:
        self.made, self.rng, self.shared = made, random.Random(f"{seed} choices"), made.get("shared", False)
        self.heap: list[tuple[float, int, str, Any]] = []
        self.count, self.now = 0, 0.0
        self.events: list[tuple[int, str, str, float, float]] = []
        self.queues: dict[str, list[Any]] = {activity: [] for activity in made["work"]}
        self.people = {
            name: {"on": False, "open": [], "since": 0.0, "version": 0, "capacity": 1, "skills": set()} | who
            for name, who in made["people"].items()
        }
        self.arrivals, self.cases = draw(made, seed)
        for i, at in enumerate(self.arrivals):
            self.push(at, "arrive", i)
        for name, who in self.people.items():
            for day, skills in who["jobs"]:
                self.push(24.0 * day, "job", (name, skills))
            self.week((name, 0))
        self.left, self.ends = len(self.cases), [0.0] * len(self.cases)
        while self.left:
            self.now, _, kind, what = heapq.heappop(self.heap)
            getattr(self, kind)(what)
            self.dispatch()

    def push(self, at: float, kind: str, what: Any) -> None:
        """Add an event."""
        self.count += 1
        heapq.heappush(self.heap, (at, self.count, kind, what))

    def week(self, what: tuple[str, int]) -> None:
        """Plan the duty of a week."""
        name, week = what
        weeks = self.people[name]["hours"]
        for day, begin, end in weeks[week % len(weeks)]:
            self.push(week * 168.0 + day * 24 + begin, "duty", (name, True))
            self.push(week * 168.0 + day * 24 + end, "duty", (name, False))
        self.push((week + 1) * 168.0, "week", (name, week + 1))

    def duty(self, what: tuple[str, bool]) -> None:
        """Let a person come or go; begun tasks are finished."""
        self.people[what[0]]["on"] = what[1]

    def job(self, what: tuple[str, set[str]]) -> None:
        """Give a person other skills."""
        self.people[what[0]]["skills"] = what[1]

    def arrive(self, i: int) -> None:
        """Begin a case."""
        self.events.append((i, "Received", "", self.now, self.now))
        for task, (_, after) in enumerate(self.cases[i]["tasks"]):
            if not after:
                self.enable(i, task)

    def enable(self, i: int, task: int) -> None:
        """Let a task wait."""
        case = self.cases[i]
        activity, sign = case["tasks"][task][0], 1.0 if "only" in self.made else -1.0
        order = {"due_date": self.arrivals[i] + case["allowance"], "amount": sign * case["amount"]}
        by = self.made.get("order", "") if activity in self.made.get("only", [activity]) else ""
        self.count += 1
        heapq.heappush(self.queues[activity], (order.get(by, self.now), self.count, i, task))

    def dispatch(self) -> None:
        """Let free people begin waiting tasks, the first in order of all queues first."""
        while True:
            best, free = None, list[str]()
            for activity, queue in self.queues.items():
                if queue and (best is None or queue[0] < self.queues[best][0]):
                    able = [
                        name
                        for name, who in self.people.items()
                        if who["on"] and activity in who["skills"] and len(who["open"]) < who["capacity"]
                    ]
                    if able:
                        best, free = activity, able
            if best is None:
                return
            least = min(len(self.people[name]["open"]) for name in free)
            name = self.rng.choice([name for name in free if len(self.people[name]["open"]) == least])
            _, _, i, task = heapq.heappop(self.queues[best])
            self.begin(name, i, task, self.made["work"][best] * self.cases[i]["luck"][task])

    def begin(self, name: str, i: int, task: int, work: float) -> None:
        """Begin a task."""
        who = self.people[name]
        self.advance(who)
        who["open"].append([work, i, task, self.now])
        self.plan(name, who)

    def advance(self, who: Made) -> None:
        """Let a person work until now."""
        done = (self.now - who["since"]) / (len(who["open"]) if self.shared and who["open"] else 1)
        for part in who["open"]:
            part[0] -= done
        who["since"] = self.now

    def plan(self, name: str, who: Made) -> None:
        """Set the next completion of a person."""
        who["version"] += 1
        if who["open"]:
            least = max(min(part[0] for part in who["open"]), 0.0) * (len(who["open"]) if self.shared else 1)
            self.push(self.now + least, "finish", (name, who["version"]))

    def finish(self, what: tuple[str, int]) -> None:
        """End the tasks of a person that are done."""
        name, who = what[0], self.people[what[0]]
        if what[1] != who["version"]:
            return
        self.advance(who)
        done = [part for part in who["open"] if part[0] <= 1e-9]
        who["open"] = [part for part in who["open"] if part[0] > 1e-9]
        self.plan(name, who)
        for _, i, task, start in done:
            case = self.cases[i]
            self.events.append((i, case["tasks"][task][0], name, start, self.now))
            following = [j for j, (_, after) in enumerate(case["tasks"]) if task in after]
            for j in following:
                case["waits"][j] -= 1
                if case["waits"][j] == 0:
                    self.enable(i, j)
            if not following:
                self.left -= 1
                self.ends[i] = self.now


def arrival_times(a_week: float, rng: random.Random) -> list[float]:
    """Return Poisson arrivals, Monday to Friday from 8 to 18, of all weeks."""
    times, total = list[float](), rng.expovariate(a_week / 50.0)
    while total < 50.0 * WEEKS:
        day, hour = divmod(total, 10.0)
        times.append(day // 5 * 168 + day % 5 * 24 + 8 + hour)
        total += rng.expovariate(a_week / 50.0)
    return times


def figures(play: Play) -> dict[str, float]:
    """Return the mean cycle time from arrival, in hours."""
    return {"cycle": sum(e - a for e, a in zip(play.ends, play.arrivals, strict=True)) / len(play.arrivals)}


def write_log(play: Play, path: Path, received: bool = True) -> None:
    """Write the log of a run; ``received`` is whether it has an event at arrival."""
    made = play.made
    order, starts = made.get("order"), made.get("starts", True)
    with path.open("w", newline="") as file:
        out = csv.writer(file)
        columns = ["case_id", "activity", "resource", *(["start_time"] if starts else []), "end_time"]
        out.writerow([*columns, *([order] if order else [])])
        for i, activity, name, start, end in sorted(play.events, key=lambda event: (event[3], event[4])):
            times = [MONDAY + timedelta(hours=t) for t in ((start, end) if starts else (end,))]
            if made.get("minutes"):
                times = [t.replace(second=0, microsecond=0) for t in times]
            case = play.cases[i]
            due_date = (MONDAY + timedelta(hours=play.arrivals[i] + case["allowance"])).isoformat(timespec="minutes")
            extra = [due_date if order == "due_date" else round(1000 * case["amount"])] if order else []
            if name or received:
                stamps = [t.isoformat(timespec="milliseconds") for t in times]
                out.writerow([f"case {i}", activity, name, *stamps, *extra])


def main() -> None:
    """Write logs and print their mean cycle times."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--process", nargs="+", default=list(PROCESSES), choices=list(PROCESSES))
    parser.add_argument("--seeds", type=int, nargs="+", default=[1])
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    for name in options.process:
        for seed in options.seeds:
            play = Play(changed(name, ""), seed)
            write_log(play, options.folder / f"{name}_{seed}.csv")
            print(f"{name} {seed}: {len(play.arrivals):,} cases, {figures(play)['cycle']:.2f} h", flush=True)


if __name__ == "__main__":
    main()
