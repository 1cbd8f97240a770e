"""What a policy for any number of people reads of the process: the feasible pairs, in no order, and a summary."""

import math
from functools import cache

import numpy as np
import pytest
import torch
from helpers.listed import pointer_model
from numba import njit
from oracles.process_play import office
from oracles.slow_pointer import SlowPointer

from longstride.policies.families.pointer.family import POINTER
from longstride.policies.make_spec import spec_for
from longstride.policies.networks import ActorCritic
from longstride.process.kernel.pairs import figures
from longstride.process.kernel.pairs.action_features import action_features
from longstride.process.simulator import ProcessSimulator
from longstride.seeding import stream
from longstride.simulators.simulator import compile_functions, new_state

STEPS = 300


@cache
def simulators():
    """Return the office with two of three people there day and night, and the same in another order."""
    scenario = office().model_copy(update={"working_hours": {"day": office().working_hours["day"]}})
    turned = {name: list(reversed(getattr(scenario, name))) for name in ("activities", "resources", "service")}
    return ProcessSimulator(scenario), ProcessSimulator(scenario.model_copy(update=turned))


def names_of(simulator):
    """Return (activity, person) of each action; None for postpone."""
    p, scenario = simulator.parameters, simulator.scenario
    pairs = zip(p.pair_activity, p.pair_resource, strict=True)
    return [*((scenario.activities[a], scenario.resources[r]) for a, r in pairs), None]


def read(simulator, state):
    """Return summary, action ids and descriptions of a state."""
    functions, n = compile_functions(simulator), simulator.action_space.n
    summary, ids = np.zeros(simulator.summary_size, np.float32), np.full(n, -1, np.int32)
    rows = np.full((n, simulator.description_size), np.float32(np.nan))
    functions.summarise(state, simulator.parameters, summary)
    count = functions.describe_actions(state, simulator.parameters, ids, rows)
    return summary, ids[:count], rows[:count]


def played(seed=3):
    """Play both orders side by side with the same actions, drawn at random; yield both states at each step."""
    first, second = simulators()
    numbers = {name: k for k, name in enumerate(names_of(second))}
    names, rng = names_of(first), np.random.default_rng(seed)
    states = [new_state(simulator)[0] for simulator in (first, second)]
    for simulator, state in zip((first, second), states, strict=True):
        compile_functions(simulator).reset(state, simulator.parameters, stream(seed, "simulator"))
    for _ in range(STEPS):
        yield states
        action = int(rng.choice(read(first, states[0])[1]))
        for simulator, state, each in zip((first, second), states, (action, numbers[names[action]]), strict=True):
            compile_functions(simulator).step(state, simulator.parameters, each, rng)
        if first.truncated(states[0], first.parameters):
            return


def test_another_order_of_people_and_activities_has_the_same_summaries_and_probabilities():
    """Of each action by its name, by a policy with random parameters."""
    slow, several = SlowPointer(pointer_model(spec_for(simulators()[0], (16,), (16,), "tanh", POINTER))), 0
    for states in played():
        seen = [read(simulator, state) for simulator, state in zip(simulators(), states, strict=True)]
        np.testing.assert_allclose(seen[0][0], seen[1][0], rtol=1e-5, atol=1e-6)
        by_name = [
            dict(zip([names_of(s)[k] for k in ids], slow.probabilities(summary, rows), strict=True))
            for s, (summary, ids, rows) in zip(simulators(), seen, strict=True)
        ]
        assert by_name[0].keys() == by_name[1].keys()
        assert list(by_name[0].values()) == pytest.approx([by_name[1][name] for name in by_name[0]], rel=1e-4)
        several += len(by_name[0]) > 3
    assert several > 20


def test_each_feasible_action_is_described_once_with_finite_figures_and_nothing_changes():
    simulator = simulators()[0]
    for state, _ in played(5):
        before, mask = state.tobytes(), np.ones(simulator.action_space.n, np.bool_)
        ProcessSimulator.action_mask(state, simulator.parameters, mask)
        summary, ids, rows = read(simulator, state)
        assert ids.tolist() == np.flatnonzero(mask).tolist()
        assert np.isfinite(rows).all()
        assert np.isfinite(summary).all()
        assert state.tobytes() == before


def test_an_untrained_policy_is_that_of_the_rule():
    """Its scores and the logits of an untrained multilayer perceptron differ by the same number for all actions."""
    simulator = simulators()[0]
    logits, weights = simulator.initial_logits.astype(np.float64), simulator.initial_feature_weights
    for state, _ in played(7):
        _, ids, rows = read(simulator, state)
        mask = np.isin(np.arange(simulator.action_space.n), ids)
        features = np.zeros((len(mask), simulator.action_feature_size), np.float32)
        action_features(state, simulator.parameters, mask, features)
        expected = (logits + features @ weights.astype(np.float64))[ids]
        np.testing.assert_allclose(rows @ simulator.initial_description_weights, expected, rtol=1e-4, atol=1e-4)


def described_slowly(simulator, state, action):
    """Return some figures of a pair by column, from the scenario's names and the fields of the state."""
    p, names = simulator.parameters, names_of(simulator)
    activity, person = names[action]
    means = dict(zip(names, p.pair_mean, strict=False))
    queues = dict(zip(simulator.scenario.activities, state.queue_length, strict=True))
    is_free = {name: bool(flag) for name, flag in zip(simulator.scenario.resources, state.available, strict=True)}
    slot = state.queue_head[simulator.scenario.activities.index(activity)]
    able, skills = ([name for name in means if name[k] == names[action][k]] for k in (0, 1))
    free = [means[name] for name in able if is_free[name[1]]]
    elsewhere = [name for name in skills if name[0] != activity and queues[name[0]]]
    own, unit = means[names[action]], p.service_unit
    left = (state.change_at[simulator.scenario.resources.index(person)] - state.time) / own
    return {
        figures.SERVICE: np.log(own / unit),
        figures.QUEUE: np.log(1 + queues[activity]),
        figures.AGE: np.log(1 + (state.time - state.slot_enabled[slot]) / unit),
        figures.CASE_AGE: np.log(1 + (state.time - state.arrival_time[state.slot_case[slot]]) / unit),
        figures.FREE: np.log(len(free)),
        figures.ABLE: np.log(len(able)),
        figures.FASTER: np.log(1 + sum(mean < own for mean in free)),
        figures.SKILLS: np.log(len(skills)),
        figures.OTHER_WAITING: np.log(1 + len(elsewhere)),
        figures.OTHER_TASKS: np.log(1 + sum(queues[name[0]] for name in elsewhere)),
        figures.BEST_ELSEWHERE: np.log(own / min([own, *(means[name] for name in elsewhere)])),
        figures.SHIFT_LEFT: np.log(np.clip(left, 0.05, 20.0)),
        figures.BEST_SLACK: 0.0,
        figures.IS_POSTPONE: 0.0,
    }


def test_descriptions_are_those_of_a_slow_reference():
    simulator, seen = simulators()[0], set()
    for state, _ in played(9):
        _, ids, rows = read(simulator, state)
        for action, row in zip(ids[:-1], rows[:-1], strict=True):
            for column, value in described_slowly(simulator, state, int(action)).items():
                assert row[column] == pytest.approx(value, rel=1e-5, abs=1e-6), column
                seen |= {column} if value != 0.0 else set()
        last = np.zeros(figures.SIZE)
        last[[figures.IS_POSTPONE, figures.BEST_SLACK]] = 1.0, rows[:-1, figures.SLACK].max()
        np.testing.assert_allclose(rows[-1], last, rtol=1e-6)
    assert len(seen) == 12  # each was other than 0 somewhere


def test_a_summary_counts_cases_queues_and_people():
    simulator = simulators()[0]
    p, people, activities = simulator.parameters, 3, 3
    for state, _ in played(13):
        summary, _, _ = read(simulator, state)
        waits = state.queue_length > 0
        assert summary[:4].tolist() == pytest.approx(
            np.log1p([state.open, state.waiting, state.open / people, state.waiting / people]), rel=1e-5
        )
        assert summary[4] == pytest.approx(waits.sum() / activities)
        assert summary[6:9].tolist() == pytest.approx(np.log1p(sorted(state.queue_length)[::-1]), rel=1e-5)
        assert summary[13] == pytest.approx(float(state.queue_length @ p.work_ahead) / people, rel=1e-5)
        busy = (state.busy_pair >= 0).sum()
        expected = state.available.sum() / people, busy / people, state.on_duty.sum() / people
        assert summary[14:17].tolist() == pytest.approx(expected)
        hour = 2.0 * np.pi * state.time / (24.0 * p.hour)
        assert summary[20:22].tolist() == pytest.approx([np.sin(hour), np.cos(hour)], abs=1e-5)


def test_plans_expect_about_as_many_actions_as_there_are():
    simulator = simulators()[0]
    counts = [len(read(simulator, state)[1]) for state, _ in played(11)]
    assert simulator.expected_actions / 3 < np.mean(counts) < 3 * simulator.expected_actions


def test_a_person_more_changes_no_parameter():
    more = office().model_copy(
        update={
            "resources": ["new", *office().resources],
            "service": [*office().service, office().service[0].model_copy(update={"resource": "new"})],
        }
    )
    specs = [spec_for(each, (16,), (16,), "relu", POINTER) for each in (simulators()[0], ProcessSimulator(more))]
    models = [ActorCritic(spec) for spec in specs]
    assert models[0].layout == models[1].layout
    assert specs[0].action_space != specs[1].action_space
    assert torch.equal(models[0].flat, models[1].flat)


def test_logarithms_of_counts_have_the_bits_that_compiled_code_computes():
    p, compiled = simulators()[0].parameters, njit(lambda count: math.log1p(count))
    for count in (*range(300), 10**6):
        assert figures.log1p_of(p, count) == compiled(count)
