"""Traces an episode of the process simulator: every task with its person and times, every postponement.

The actions of the episode are played again, which takes a fraction of a second.
"""

from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from longstride.jit_cache.cache import cached
from longstride.process.kernel.counter_rng import advance, uniform
from longstride.process.kernel.duty import duty_stretches, pause_until_done
from longstride.process.kernel.service_times import draw_service
from longstride.process.simulator import ProcessSimulator
from longstride.seeding import stream
from longstride.simulators.compile import kernel_functions
from longstride.simulators.compile_errors import naming_the_episode
from longstride.simulators.hooks import PlayedEpisode
from longstride.simulators.simulator import Function, metrics_of, new_state

_STEP = np.dtype(
    [
        ("time", np.float64),  # time of the decision
        ("pair", np.int64),  # chosen pair, -1 for postpone
        ("case", np.int64),
        ("enabled", np.float64),  # time at which the task began to wait
        ("finish", np.float64),  # end of the work on it
        ("waiting", np.int64),  # waiting tasks at the decision
        ("free", np.int64),  # free people at the decision
    ]
)


class Trace(NamedTuple):
    """An episode; times in the scenario's unit, indices of activities and resources in the scenario's order."""

    end: float  # time at which the episode ended
    tasks: np.ndarray  # records of the begun tasks: activity, resource, case, enabled, start, finish
    work: np.ndarray  # records of the stretches of work on them: activity, resource, start, end
    waiting: np.ndarray  # records of the tasks waiting at the end: activity, enabled
    decisions: np.ndarray  # records of the decisions: time, pair (-1 for postpone), waiting (tasks), free (people)
    arrivals: np.ndarray  # float64[cases], time of each arrival
    completions: np.ndarray  # float64[cases], time of each completion, NaN for an open case
    on_duty: np.ndarray  # records of the shifts: resource, start, end
    metrics: dict[str, Any]  # the simulator's metrics of the episode


def traces_of(simulator: ProcessSimulator, episodes: Sequence[PlayedEpisode]) -> dict[str, Trace]:
    """Return the traces of episodes by the policy that played."""
    return {of.policy: trace_of(simulator, of.actions[:, 0], of.seed, of.streams, of.episode) for of in episodes}


def trace_of(simulator: ProcessSimulator, actions: np.ndarray, seed: int, streams: str, episode: int) -> Trace:
    """Replay the actions, int64[decisions], of an episode and return its trace.

    Args:
        simulator: simulator of the episode.
        actions: every action of the episode.
        seed: seed of the run's random streams.
        streams: name of the streams of the episode.
        episode: number of the episode.
    """
    p, states = simulator.parameters, new_state(simulator)
    steps = np.zeros(len(actions), _STEP).view(np.recarray)
    functions = kernel_functions(simulator)
    replay = cached(_build_replay(functions.reset, functions.step))
    with naming_the_episode(simulator, f"{episode}, played again"):
        replay(states, p, stream(seed, streams, episode), actions, steps)
    state, given = states[0], steps["pair"] >= 0
    tasks = np.zeros(given.sum(), _fields(activity=np.int64, resource=np.int64, case=np.int64, **_TIMES))
    chosen = steps[given]
    tasks["activity"], tasks["resource"] = p.pair_activity[chosen["pair"]], p.pair_resource[chosen["pair"]]
    tasks["case"], tasks["enabled"] = chosen["case"], chosen["enabled"]
    tasks["start"], tasks["finish"] = chosen["time"], chosen["finish"]
    completions = np.array(state.completion_time[: state.arrived])
    on_duty = _shifts(simulator, state)
    return Trace(
        end=float(state.time),
        tasks=tasks,
        work=stretches_of_work(tasks, on_duty if p.pause else None, float(state.time)),
        waiting=_still_waiting(state),
        decisions=steps[["time", "pair", "waiting", "free"]],
        arrivals=np.array(state.arrival_time[: state.arrived]),
        completions=np.where(completions < 0.0, np.nan, completions),
        on_duty=on_duty,
        metrics=metrics_of(simulator, states),
    )


_TIMES = {"enabled": np.float64, "start": np.float64, "finish": np.float64}


def _fields(**kinds: Any) -> np.dtype:
    return np.dtype(list(kinds.items()))


@cache
def _build_replay(reset: Function, step: Function) -> Function:
    @njit(nogil=True)
    def replay(states, p, rng, actions, steps):  # type: ignore[no-untyped-def]
        state = states[0]
        reset(state, p, rng)
        for t in range(len(actions)):
            row, pair = steps[t], actions[t]
            row.time, row.pair, row.waiting = state.time, -1, state.waiting
            for r in range(len(state.available)):
                row.free += state.available[r]
            if pair < len(p.pair_mean):
                slot = state.queue_head[p.pair_activity[pair]]
                row.pair, row.case, row.enabled = pair, state.slot_case[slot], state.slot_enabled[slot]
                u = uniform(advance(state.slot_stream[slot]))
                work = draw_service(p, pair, state.slot_node[slot], u)
                row.finish = state.time + work
                if p.pause and p.has_rosters:
                    done = pause_until_done(state, p, p.pair_resource[pair], state.time, work)
                    row.finish = min(done, p.horizon)
            step(state, p, pair, rng)

    return replay


def stretches_of_work(tasks: np.ndarray, on_duty: np.ndarray | None, end: float) -> np.ndarray:
    """Return the stretches of work: from start to finish of tasks, only within shifts if tasks rest outside of them.

    Args:
        tasks: records of tasks, as in :class:`Trace`.
        on_duty: records of the shifts if tasks rest outside of them; None if they do not.
        end: time at which the episode ended.
    """
    fields = _fields(activity=np.int64, resource=np.int64, start=np.float64, end=np.float64)
    if on_duty is None:
        work = np.zeros(len(tasks), fields)
        work["activity"], work["resource"], work["start"] = tasks["activity"], tasks["resource"], tasks["start"]
        work["end"] = np.minimum(tasks["finish"], end)
        return work
    rows = []
    for r in np.unique(tasks["resource"]):
        shifts = np.sort(on_duty[on_duty["resource"] == r], order="start")
        for task in tasks[tasks["resource"] == r]:
            begin, finish = task["start"], min(task["finish"], end)
            first, last = np.searchsorted(shifts["end"], begin, "right"), np.searchsorted(shifts["start"], finish)
            rows += [
                (task["activity"], r, max(begin, shift["start"]), min(finish, shift["end"]))
                for shift in shifts[first:last]
            ]
    return np.array(rows, fields)


def _still_waiting(state: Any) -> np.ndarray:
    """Return the tasks in the queues of a state."""
    waiting = []
    for activity, head in enumerate(state.queue_head):
        slot = int(head)
        for _ in range(int(state.queue_length[activity])):
            waiting.append((activity, float(state.slot_enabled[slot])))
            slot = int(state.slot_next[slot])
    return np.array(waiting, _fields(activity=np.int64, enabled=np.float64))


def _shifts(simulator: ProcessSimulator, state: Any) -> np.ndarray:
    """Return the shifts of every resource in an episode: by its rosters if the scenario has any, else weekly ones."""
    end, hour = float(state.time), simulator.scenario.hour
    if not simulator.parameters.has_rosters:
        return shifts_until(simulator, end)
    rows = []
    for r in range(len(simulator.scenario.resources)):
        for first, last in duty_stretches(state, simulator.parameters, r, int(end / (24.0 * hour)) + 1):
            if first * hour < end:
                rows.append((r, first * hour, min(last * hour, end)))
    return np.array(rows, _fields(resource=np.int64, start=np.float64, end=np.float64))


def shifts_until(simulator: ProcessSimulator, end: float) -> np.ndarray:
    """Return the shifts of every resource from time 0 to ``end``; a single one if a resource is always on duty."""
    scenario, rows = simulator.scenario, []
    week = 168.0 * scenario.hour
    for r, name in enumerate(scenario.resources):
        if name not in scenario.working_hours:
            rows.append((r, 0.0, end))
            continue
        intervals = scenario.weekly_hours({name})
        for begin in np.arange(0.0, end, week):
            shifts = ((begin + scenario.hour * a, min(begin + scenario.hour * b, end)) for a, b in intervals)
            rows += [(r, a, b) for a, b in shifts if a < end]
    return np.array(rows, _fields(resource=np.int64, start=np.float64, end=np.float64))
