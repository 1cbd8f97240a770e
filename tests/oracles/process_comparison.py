"""Plays episodes in the simulator and in the reference side by side.

Run as a program (``NUMBA_DISABLE_JIT=1 python -m oracles.process_comparison 200``) it generates small scenarios of
every kind with hypothesis and compares uncompiled, for which no scenario has to be compiled.
"""

import math
import sys
import warnings
from typing import Any

import numpy as np
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from oracles.process_reference import Reference

from longstride.errors import UserError
from longstride.process.kernel.metrics import run_unhindered
from longstride.process.kernel.pairs.action_features import branches_behind
from longstride.process.scenario.scenario import DAYS, Scenario
from longstride.process.scenario_file import parse_scenario
from longstride.process.simulator import ProcessSimulator
from longstride.seeding import stream
from longstride.simulators.simulator import compile_functions, metrics_of, new_state

POSTPONE_SHARE = 0.15


def compare_episode(scenario: Scenario, seed: int, postpone: float = POSTPONE_SHARE) -> Reference:
    """Play one episode with random actions in both, and assert that they agree at every decision.

    Args:
        scenario: the scenario.
        seed: names the episode and the actions.
        postpone: probability of postponing.

    Returns:
        The reference at the end of the episode.
    """
    simulator = ProcessSimulator(scenario)
    functions = compile_functions(simulator)
    reset, observe, step, action_mask = functions.reset, functions.observe, functions.step, functions.action_mask
    truncated, time = functions.truncated, functions.time
    p, states = simulator.parameters, new_state(simulator)
    state, actions = states[0], np.random.default_rng(seed)
    reset(state, p, stream(seed, "simulator"))
    reference = Reference(scenario, np.uint64(stream(seed, "simulator").random() * 2.0**53))
    mask, observation = np.empty(simulator.action_space.n, bool), np.empty(simulator.observation_size, np.float32)
    total = 0.0
    for decision in range(simulator.max_steps):
        feasible = reference.feasible()
        observe(state, p, observation)
        assert bool(truncated(state, p)) == reference.ended, f"decision {decision}"
        assert math.isclose(time(state, p), reference.now, rel_tol=1e-9, abs_tol=1e-9), f"decision {decision}"
        check_heuristics(simulator, state, mask_of(action_mask, state, p, mask), reference, actions)
        if reference.ended:
            break
        assert np.flatnonzero(mask).tolist() == [*feasible, len(reference.pairs)], f"decision {decision}"
        np.testing.assert_allclose(observation, reference.observation(), rtol=1e-5, atol=1e-5)
        behind = [branches_behind(state, p, a) if n else 0.0 for a, n in enumerate(state.queue_length)]
        assert behind == reference.behind(), f"decision {decision}"
        action = len(reference.pairs)
        if feasible and actions.random() >= postpone:
            action = int(actions.choice(feasible))
        reward, terminated = step(state, p, action, None)
        assert not terminated
        assert math.isclose(reward, reference.step(action), rel_tol=1e-7, abs_tol=1e-9), f"decision {decision}"
        total += reward
    else:
        raise AssertionError("max_steps cut an episode of the process")
    compare_ends(simulator, states, reference, total)
    bound = new_state(simulator)
    reset(bound[0], p, stream(seed, "simulator"))
    run_unhindered(bound[0], p)
    n = len(reference.cases)
    completions = np.stack([bound[0].completion_time[:n], state.completion_time[:n]])
    best, actual = np.where(completions >= 0, completions, math.inf)
    assert np.all(best <= actual * (1 + 1e-12)), "the bound is above what was reached"
    return reference


def compare_ends(simulator: ProcessSimulator, states: Any, reference: Reference, total: float) -> None:
    """Assert that cases and metrics of an episode agree, and that its return is minus its cycle times."""
    state, n = states[0], len(reference.cases)
    assert state.arrived == n
    assert (state.overflow != 0) == reference.overflowed
    arrivals = [case.arrival for case in reference.cases]
    completions = [-1.0 if case.completion is None else case.completion for case in reference.cases]
    np.testing.assert_allclose(state.arrival_time[:n], arrivals, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(state.completion_time[:n], completions, rtol=1e-9, atol=1e-9)
    metrics = metrics_of(simulator, states)
    for name, value in reference.metrics().items():
        np.testing.assert_allclose(metrics[name], value, rtol=1e-7, atol=1e-7, err_msg=name)
    if reference.decisions == 0:
        return
    ages = sum((reference.now if c.completion is None else c.completion) - c.arrival for c in reference.cases)
    assert math.isclose(total, -ages / reference.expected_cases(), rel_tol=1e-7, abs_tol=1e-9)


def mask_of(action_mask: Any, state: Any, p: Any, mask: Any) -> Any:
    """Fill a mask and return it."""
    mask[:] = True
    action_mask(state, p, mask)
    return mask


def check_heuristics(simulator: ProcessSimulator, state: Any, mask: Any, reference: Reference, rng: Any) -> None:
    """Assert that every heuristic chooses what its definition allows."""
    choices = {"fifo": reference.fifo_choices(), "spt": reference.spt_choices(), "logged": reference.logged_choices()}
    choices["random"] = reference.feasible() or [len(reference.pairs)]
    for name in simulator.heuristics:
        allowed = choices[name]
        assert simulator.heuristics[name](state, simulator.parameters, mask, rng) in allowed, name


def flows(activities: list[str]) -> st.SearchStrategy[Any]:
    """Generate flow trees and Markov flows over some activities."""
    task = st.sampled_from(activities).map(lambda a: {"task": a})

    def xor(branches: list[Any]) -> Any:
        return {"xor": [{"p": 1 / len(branches), "branch": branch} for branch in branches]}

    def grow(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
        parts = st.lists(inner, min_size=1, max_size=3)
        return st.one_of(parts.map(lambda x: {"seq": x}), parts.map(xor), parts.map(lambda x: {"and": x}))

    tree = st.recursive(task, grow, max_leaves=8)
    row = st.lists(st.integers(0, 4), min_size=len(activities), max_size=len(activities))

    def choices(weights: list[int], end: int) -> Any:
        total = sum(weights) + end
        named = zip([*activities, None], [*weights, end], strict=True)
        return [{"p": w / total, "activity": a} for a, w in named if w > 0]

    start = row.filter(any).map(lambda w: choices(w, 0))
    following = st.tuples(*[row.map(lambda w: choices(w, 3)) for _ in activities])
    markov = st.tuples(start, following).map(
        lambda x: {"start": x[0], "next": dict(zip(activities, x[1], strict=True))}
    )
    return st.one_of(tree, tree, markov)


def services() -> st.SearchStrategy[dict[str, Any]]:
    """Generate service times around one hour."""
    some = st.sampled_from([0.25, 0.5, 1.0, 1.5, 3.0])
    return st.one_of(
        st.builds(lambda m: {"distribution": "exponential", "mean": m}, some),
        st.builds(lambda m: {"distribution": "constant", "mean": m}, some),
        st.builds(lambda m, c: {"distribution": "lognormal", "mean": m, "cv": c}, some, st.sampled_from([0.3, 1.0])),
        st.builds(lambda a, b: {"distribution": "uniform", "low": a, "high": a + b}, some, some),
        st.builds(
            lambda q: {"distribution": "quantiles", "quantiles": sorted(q)}, st.lists(some, min_size=2, max_size=5)
        ),
    )


def shifts() -> st.SearchStrategy[list[dict[str, Any]]]:
    """Generate working hours in quarters of an hour, often from or to midnight."""
    quarter = st.one_of(st.integers(0, 96), st.sampled_from([0, 96]))
    quarters = st.tuples(quarter, quarter).filter(lambda x: x[0] < x[1])
    days = st.lists(st.sampled_from(DAYS), min_size=1, max_size=7, unique=True)

    def shift(when: tuple[int, int], days: list[str]) -> dict[str, Any]:
        start, end = (f"{quarter // 4:02}:{quarter % 4 * 15:02}" for quarter in when)
        return {"days": days, "from": start, "to": end}

    return st.lists(st.builds(shift, quarters, days), min_size=1, max_size=3)


@st.composite
def scenarios(draw: Any) -> Scenario:
    """Generate small scenarios of every kind: one to two dozen cases."""
    activities, resources = list("ABCD")[: draw(st.integers(1, 4))], ["r", "s", "t"][: draw(st.integers(1, 3))]
    unit = draw(st.sampled_from(["abstract", "seconds", "minutes", "hours", "days"]))
    hour = {"abstract": 1.0, "seconds": 3600.0, "minutes": 60.0, "hours": 1.0, "days": 1 / 24}[unit]
    horizon = draw(st.sampled_from([5.0, 24.0, 100.0, 400.0]))
    service, observed = [], draw(st.booleans())
    for a in activities:
        for r in draw(st.lists(st.sampled_from(resources), min_size=1, max_size=3, unique=True)):
            times = draw(services())
            for name in ("mean", "low", "high"):
                if name in times:
                    times[name] *= hour
            if "quantiles" in times:
                times["quantiles"] = [q * hour for q in times["quantiles"]]
            if observed:
                times["observations"] = draw(st.integers(0, 2))
            service.append({"activity": a, "resource": r, **times})
    data = {
        "schema": "resource-allocation-scenario/1",
        "name": "generated",
        "time_unit": unit,
        "horizon": {"value": horizon * hour},
        "warmup": draw(st.sampled_from([0.0, 0.25, 0.5])) * horizon * hour,
        "activities": activities,
        "resources": resources,
        "service": draw(st.permutations(service)),
        "flow": draw(flows(activities)),
    }
    cases = draw(st.sampled_from([2.0, 10.0, 25.0]))
    arrival_kinds = ["poisson", "replay"] + ["weekly"] * (unit != "abstract")
    kind = draw(st.sampled_from(arrival_kinds))
    if kind == "poisson":
        data["arrivals"] = {"process": kind, "rate": cases / horizon / hour}
    elif kind == "weekly":
        rates = draw(st.lists(st.sampled_from([0.0, 0.5, 2.0]), min_size=24, max_size=24).filter(any))
        data["arrivals"] = {"process": kind, "rates": [r * cases / horizon / hour for r in rates * 7]}
    else:
        # Quarters of the horizon's hundredth: ties with each other and with constant services are common.
        times = draw(st.lists(st.integers(0, int(4.4 * horizon)), min_size=1, max_size=25))
        data["arrivals"] = {"process": kind, "times": [t / 4 * hour for t in sorted(times)]}
    if unit != "abstract":
        data["working_hours"] = draw(st.dictionaries(st.sampled_from(resources), shifts()))
    data["capacity"] = draw(st.sampled_from([{}, {}, {}, {"open_cases": 3}, {"waiting_tasks": 3}]))
    try:
        return parse_scenario(data, "generated")
    except UserError:
        assume(False)
        raise


def main(examples: int) -> None:
    """Compare that many generated scenarios."""
    warnings.simplefilter("ignore", RuntimeWarning)  # uint64 wraps around, which NumPy's scalars warn of

    @settings(max_examples=examples, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
    @given(scenarios(), st.integers(0, 2**31))
    def compare(scenario: Scenario, seed: int) -> None:
        reference = compare_episode(scenario, seed)
        seen["decisions"] += reference.decisions
        seen["overflows"] += reference.overflowed
        seen["scenarios"] += 1

    seen = {"scenarios": 0, "decisions": 0, "overflows": 0}
    compare()
    print(seen)


if __name__ == "__main__":
    main(int(sys.argv[1]))
