"""A slow, obvious reference of the process semantics: a heap of events, lists of tasks, closures for what comes next.

Nothing is shared with the simulator but the scenario and the definition of an episode's luck: which uniform number
belongs to which arrival, branch and service (the functions of ``counter_rng.py``).
The flow is walked as it stands in the scenario, working hours are a yes or no for each minute of the week, and the
figures of an episode are computed from the list of its cases.
"""

import heapq
import itertools
import math
import statistics
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from longstride.process.kernel import counter_rng
from longstride.process.kernel.counter_rng import uniform
from longstride.process.scenario.scenario import DAYS, Scenario

COMPLETION, SHIFT, ARRIVAL = range(3)
MINUTES_PER_WEEK = 7 * 24 * 60
HOURS = {"abstract": math.nan, "seconds": 3600.0, "minutes": 60.0, "hours": 1.0, "days": 1 / 24}


class CapacityReachedError(Exception):
    """Ends an episode before its horizon."""


@dataclass
class Case:
    """One case with its luck."""

    number: int
    arrival: float
    stream: Any
    completion: float | None = None
    of_class: str = ""


@dataclass
class Fork:
    """Parallel branches of one case, and how many of them are done."""

    branches: int
    done: int = 0


@dataclass
class Task:
    """Work that waits or is being done; ``then`` is what the case does afterwards, ``fork`` the innermost around it."""

    case: Case
    activity: str
    enabled: float
    stream: Any
    then: Callable[[Any], None]
    fork: Fork | None = None


@dataclass
class Resource:
    """A person."""

    name: str
    minutes: list[bool]
    on_duty: bool
    task: Task | None = None
    activity: str | None = None
    started: float = 0.0
    worked: list[tuple[float, float]] = field(default_factory=list)


class Reference:
    """One episode of a scenario, decision by decision.

    Args:
        scenario: the scenario.
        seed: np.uint64 that names the episode's luck.
    """

    def __init__(self, scenario: Scenario, seed: Any) -> None:
        self.scenario, self.seed, self.hour = scenario, seed, HOURS[scenario.time_unit]
        order = [(a, r) for a in scenario.activities for r in scenario.resources]
        self.service = {(s.activity, s.resource): s for s in scenario.service}
        self.pairs = [pair for pair in order if pair in self.service]
        self.queues: dict[str, deque[Task]] = {a: deque() for a in scenario.activities}
        self.resources = {name: self._resource(name) for name in scenario.resources}
        self.joins = number_joins(scenario.flow)
        self.cases: list[Case] = []
        self.now, self.open_time, self.decisions = 0.0, 0.0, 0
        self.ended = self.overflowed = False
        self.events: list[Any] = []
        self.arrivals = self._arrival_times()
        self._schedule_next_arrival()
        self._schedule_shifts()
        self._run()

    # What a policy sees and does

    def feasible(self) -> list[int]:
        """Return the actions that are possible now, without postpone."""
        return [
            i
            for i, (activity, name) in enumerate(self.pairs)
            if self.queues[activity] and self.resources[name].on_duty and self.resources[name].task is None
        ]

    def step(self, action: int) -> float:
        """Assign (or postpone), run to the next decision, and return the reward."""
        self.decisions += 1
        if action < len(self.pairs):
            activity, name = self.pairs[action]
            task, resource = self.queues[activity].popleft(), self.resources[name]
            task.stream = advance(task.stream)
            resource.task, resource.activity, resource.started = task, activity, self.now
            end = self.now + quantile(self.service[activity, name], float(uniform(task.stream)))
            heapq.heappush(self.events, (end, COMPLETION, self.scenario.resources.index(name), name))
            if self.feasible():
                return self._collect()
        self._run()
        return self._collect()

    def fifo_choices(self) -> list[int]:
        """Return the feasible pairs of the activities in which the oldest case that has a feasible pair waits."""
        feasible = self.feasible()
        if not feasible:
            return [len(self.pairs)]
        activities = {self.pairs[i][0] for i in feasible}
        oldest = min(task.case.number for a in activities for task in self.queues[a])
        return [i for i in feasible if any(task.case.number == oldest for task in self.queues[self.pairs[i][0]])]

    def logged_choices(self) -> list[int]:
        """Return the choices of FIFO that the log shows, all of them where it shows none."""
        choices = self.fifo_choices()
        shown = [i for i in choices if i < len(self.pairs) and self.service[self.pairs[i]].observations]
        return shown or choices

    def spt_choices(self) -> list[int]:
        """Return the feasible pairs of the least mean service time."""
        feasible = self.feasible()
        if not feasible:
            return [len(self.pairs)]
        least = min(mean(self.service[self.pairs[i]]) for i in feasible)
        return [i for i in feasible if mean(self.service[self.pairs[i]]) == least]

    def observation(self) -> list[float]:
        """Return what the simulator's ``observe`` documents."""
        people = list(self.resources.values())
        unit = statistics.fmean(mean(self.service[pair]) for pair in self.pairs)
        values = [float(self.resources[r].task is not None and self.resources[r].activity == a) for a, r in self.pairs]
        values += [float(r.on_duty and r.task is None) for r in people]
        for r in people:
            elapsed = self.now - r.started
            values.append(elapsed / (elapsed + mean(self.service[r.activity, r.name])) if r.task else 0.0)
        values += [math.log(1 + len(q)) for q in self.queues.values()]
        values += [math.log(1 + (self.now - q[0].enabled) / unit) if q else 0.0 for q in self.queues.values()]
        values += [float(len(q)) for q in self.queues.values()]
        values += [math.log(1 + self._open()), float(self._open())]
        if self.scenario.working_hours or self.scenario.arrivals.rates:
            values += [float(r.on_duty) for r in people]
            for period in (24.0, 168.0):
                angle = 2 * math.pi * self.now / self.hour / period
                values += [math.sin(angle), math.cos(angle)]
        return values

    def behind(self) -> list[float]:
        """Return for each queue :meth:`branches_behind` of its head, 0 for those that are empty."""
        return [self.branches_behind(queue[0]) if queue else 0.0 for queue in self.queues.values()]

    def branches_behind(self, task: Task) -> float:
        """Return the share of a waiting task's parallel branches that nobody has done or works on."""
        if task.fork is None or task.fork.branches == 1:
            return 0.0
        begun = sum(r.task is not None and r.task.fork is task.fork for r in self.resources.values())
        return (task.fork.branches - 1 - task.fork.done - begun) / (task.fork.branches - 1)

    # Figures of the episode

    def metrics(self) -> dict[str, Any]:
        """Return the metrics of the episode that has ended."""
        counted = [case for case in self.cases if case.arrival >= self.scenario.warmup]
        times = sorted((self.now if c.completion is None else c.completion) - c.arrival for c in counted)
        times_of = [(self._worked(r), self._time_on_duty(r)) for r in self.resources.values()]
        use = [worked / max(on_duty, 1e-9) for worked, on_duty in times_of]
        worked, on_duty = map(math.fsum, zip(*times_of, strict=True))
        result = {
            "cases_finished": sum(c.completion is not None for c in counted),
            "cases_open": sum(c.completion is None for c in counted),
            "decisions": self.decisions,
            "utilisation": use,
            "mean_utilisation": worked / max(on_duty, 1e-9),
        }
        if times:
            position = 0.9 * (len(times) - 1)
            k = min(int(position), len(times) - 2) if len(times) > 1 else 0
            upper = times[min(k + 1, len(times) - 1)]
            result |= {
                "mean_cycle_time": statistics.fmean(times),
                "median_cycle_time": statistics.median(times),
                "p90_cycle_time": times[k] + (position - k) * (upper - times[k]),
            }
        return result

    def expected_cases(self) -> float:
        """Return the number of cases by which the reward is divided."""
        arrivals, horizon = self.scenario.arrivals, self.scenario.horizon.value
        if arrivals.times is not None:
            return max(1.0, sum(t < horizon for t in arrivals.times))
        if arrivals.rates is not None:
            bounds, total = self._expected_by_hour()
            return max(1.0, float(np.interp(horizon, bounds, total)))
        return arrivals.rate * horizon

    # Luck

    def _arrival_times(self) -> list[float]:
        """Return the times of all arrivals before the horizon."""
        arrivals, horizon = self.scenario.arrivals, self.scenario.horizon.value
        if arrivals.times is not None:
            return [t for t in arrivals.times if t < horizon]
        times, stream, exposure = [], child(self.seed, 0), 0.0
        if arrivals.rates is not None:
            bounds, total = self._expected_by_hour()
        while True:
            stream = advance(stream)
            exposure -= math.log(1.0 - float(uniform(stream)))
            if arrivals.rates is None:
                time = exposure / arrivals.rate
            else:
                # Time change: a unit-rate process seen through the inverse of the expected number of arrivals.
                k = int(np.searchsorted(total, exposure)) - 1
                if k + 1 >= len(bounds):
                    return times
                time = bounds[k] + (exposure - total[k]) / arrivals.rates[k % 168]
            if time >= horizon:
                return times
            times.append(time)

    def _expected_by_hour(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the starts of the hours up to the horizon and the expected number of arrivals until each."""
        hours = math.ceil(self.scenario.horizon.value / self.hour)
        rates = [self.scenario.arrivals.rates[h % 168] * self.hour for h in range(hours)]
        return np.arange(hours + 1) * self.hour, np.concatenate(([0.0], np.cumsum(rates)))

    # Events

    def _run(self) -> None:
        """Take events one by one until a pair is feasible after one of them, or the episode ends."""
        while not self.ended:
            time, kind, _, name = self.events[0] if self.events else (math.inf, None, 0, "")
            if time >= self.scenario.horizon.value:
                self._pass(self.scenario.horizon.value)
                self.ended = True
                return
            heapq.heappop(self.events)
            self._pass(time)
            try:
                if kind == COMPLETION:
                    self._complete(self.resources[name])
                elif kind == SHIFT:
                    resource = self.resources[name]
                    resource.on_duty = resource.minutes[round(time / self.hour * 60) % MINUTES_PER_WEEK]
                else:
                    self._arrive()
            except CapacityReachedError:
                self.ended = self.overflowed = True
            if self.feasible():
                return

    def _arrive(self) -> None:
        if self._open() >= (self.scenario.capacity.open_cases or math.inf):
            raise CapacityReachedError
        number = len(self.cases)
        case = Case(number, self.now, child(self.seed, number + 1))
        self.cases.append(case)
        self._schedule_next_arrival()

        def close(_: Any) -> None:
            case.completion = self.now

        if set(self.scenario.flow) == {"classes"}:
            stream = advance(case.stream)
            drawn = draw(self.scenario.flow["classes"], stream)
            case.of_class = drawn["name"]
            self._begin(drawn["flow"], case, stream, close)
        else:
            self._begin(self.scenario.flow, case, case.stream, close)

    def _begin(self, flow: Any, case: Case, stream: Any, close: Callable[[Any], None]) -> None:
        if set(flow) == {"start", "next"}:
            self._follow(flow, flow["start"], case, stream)
        else:
            self._enter(flow, case, stream, close)

    def _complete(self, resource: Resource) -> None:
        task = resource.task
        resource.worked.append((resource.started, self.now))
        resource.task = None
        task.then(task.stream)

    def _enter(
        self, element: Any, case: Case, stream: Any, then: Callable[[Any], None], fork: Fork | None = None
    ) -> None:
        """Let a case begin an element of a flow tree; ``then`` is called with the stream when it is done."""
        ((kind, content),) = element.items()
        if kind == "task":
            self._wait(Task(case, content, self.now, stream, then, fork))
        elif kind == "seq":

            def go_on(i: int, stream: Any) -> None:
                if i == len(content):
                    then(stream)
                else:
                    self._enter(content[i], case, stream, lambda after: go_on(i + 1, after), fork)

            go_on(0, stream)
        elif kind == "xor":
            stream = advance(stream)
            self._enter(draw(content, stream)["branch"], case, stream, then, fork)
        else:
            inner = Fork(len(content))

            def join(_: Any) -> None:
                inner.done += 1
                if inner.done == inner.branches:
                    then(stream_after_join(case.stream, self.joins[id(content)]))

            for i, branch in enumerate(content):
                self._enter(branch, case, child(stream, i), join, inner)

    def _follow(self, flow: Any, choices: Any, case: Case, stream: Any) -> None:
        """Let a case of a Markov flow draw its next activity."""
        if len(choices) > 1:
            stream = advance(stream)
        activity = draw(choices, stream)["activity"]
        if activity is None:
            case.completion = self.now
        else:
            following = flow["next"][activity]
            self._wait(Task(case, activity, self.now, stream, lambda after: self._follow(flow, following, case, after)))

    def _wait(self, task: Task) -> None:
        if sum(map(len, self.queues.values())) >= (self.scenario.capacity.waiting_tasks or math.inf):
            raise CapacityReachedError
        self.queues[task.activity].append(task)

    def _schedule_next_arrival(self) -> None:
        if len(self.cases) < len(self.arrivals):
            heapq.heappush(self.events, (self.arrivals[len(self.cases)], ARRIVAL, 0, ""))

    def _schedule_shifts(self) -> None:
        """Put every coming and going on the heap; at one time those who go first, and resource by resource."""
        if not self.scenario.working_hours:
            return
        for week in range(math.ceil(self.scenario.horizon.value / (168 * self.hour))):
            for i, resource in enumerate(self.resources.values()):
                for minute in range(MINUTES_PER_WEEK):
                    if resource.minutes[minute] != resource.minutes[minute - 1]:
                        time = week * 168 * self.hour + minute / 60 * self.hour
                        comes = resource.minutes[minute]
                        heapq.heappush(self.events, (time, SHIFT, i + comes * len(self.resources), resource.name))

    # Bookkeeping

    def _resource(self, name: str) -> Resource:
        minutes = [name not in self.scenario.working_hours] * MINUTES_PER_WEEK
        for shift in self.scenario.working_hours.get(name, []):
            start, end = (60 * int(clock[:2]) + int(clock[3:]) for clock in (shift.from_, shift.to))
            for day in shift.days:
                midnight = DAYS.index(day) * 24 * 60
                minutes[midnight + start : midnight + end] = [True] * (end - start)
        return Resource(name, minutes, minutes[0])

    def _open(self) -> int:
        return sum(case.completion is None for case in self.cases)

    def _pass(self, time: float) -> None:
        self.open_time += self._open() * (time - self.now)
        self.now = time

    def _collect(self) -> float:
        reward, self.open_time = -self.open_time / self.expected_cases(), 0.0
        return reward

    def _worked(self, resource: Resource) -> float:
        unfinished = self.now - resource.started if resource.task else 0.0
        return sum(end - start for start, end in resource.worked) + unfinished

    def _time_on_duty(self, resource: Resource) -> float:
        if resource.name not in self.scenario.working_hours:
            return self.now
        whole, rest = divmod(self.now / self.hour * 60, 1.0)
        on = sum(resource.minutes[m % MINUTES_PER_WEEK] for m in range(int(whole)))
        return (on + rest * resource.minutes[int(whole) % MINUTES_PER_WEEK]) / 60 * self.hour


def advance(stream: Any) -> Any:
    """Return the stream's next state as np.uint64 (compiled functions return a Python int)."""
    return np.uint64(counter_rng.advance(stream))


def child(stream: Any, index: int) -> Any:
    """Return the independent stream of a number as np.uint64."""
    return np.uint64(counter_rng.child(stream, index))


def stream_after_join(case_stream: Any, join: int) -> Any:
    """Return the luck of what follows a join: named by the join, whichever branch is last."""
    return child(child(case_stream, 2**32), join)


def number_joins(flow: Any) -> dict[int, int]:
    """Return the number of each ``and`` of a flow tree: outer before inner, the last of a ``seq`` first.

    Those of classes are shared: the k-th of a size has one number in all classes.
    """
    numbers: dict[int, int] = {}
    if set(flow) == {"classes"}:
        shared: dict[tuple[int, int], int] = {}
        for part in flow["classes"]:
            sizes: list[int] = []
            own = number_joins(part["flow"])
            branches = {id(e): len(e) for e in _forks(part["flow"])}
            for fork in sorted(own, key=own.__getitem__):
                sizes.append(branches[fork])
                numbers[fork] = shared.setdefault((sizes[-1], sizes.count(sizes[-1])), len(shared))
        return numbers

    def walk(element: Any) -> None:
        ((kind, content),) = element.items()
        if kind == "and":
            numbers[id(content)] = len(numbers)
        if kind != "task":
            for part in reversed(content) if kind == "seq" else content:
                walk(part["branch"] if kind == "xor" else part)

    if set(flow) != {"start", "next"}:
        walk(flow)
    return numbers


def _forks(flow: Any) -> list[Any]:
    """Return the lists of branches of all ``and`` of a flow tree; none of a Markov flow."""
    if "next" in flow:
        return []
    ((kind, content),) = flow.items()
    if kind == "task":
        return []
    inner = [f for part in content for f in _forks(part["branch"] if kind == "xor" else part)]
    return [content, *inner] if kind == "and" else inner


def draw(choices: list[dict[str, Any]], stream: Any) -> dict[str, Any]:
    """Return the choice in whose stretch of [0, 1) the stream's uniform number lies."""
    total = sum(choice["p"] for choice in choices)
    remaining = float(uniform(stream))
    for choice in choices:
        remaining -= choice["p"] / total
        if remaining < 0:
            return choice
    return choices[-1]


def quantile(service: Any, u: float) -> float:
    """Return the u-quantile of a service time."""
    if service.distribution == "exponential":
        return -service.mean * math.log(1.0 - u)
    if service.distribution == "constant":
        return service.mean
    if service.distribution == "uniform":
        return (1.0 - u) * service.low + u * service.high
    if service.distribution == "lognormal":
        variance = math.log(1.0 + service.cv**2)
        z = statistics.NormalDist().inv_cdf(u) if u > 0.0 else -math.inf
        return service.mean * math.exp(math.sqrt(variance) * z - variance / 2.0)
    table = service.quantiles
    return float(np.interp(u, np.linspace(0.0, 1.0, len(table)), table))


def mean(service: Any) -> float:
    """Return the mean of a service time."""
    if service.distribution == "uniform":
        return (service.low + service.high) / 2
    if service.distribution == "quantiles":
        q = service.quantiles
        return statistics.fmean((a + b) / 2 for a, b in itertools.pairwise(q))
    return service.mean
