"""Gymnasium environments under the compiled policy: what the trajectory holds, what the environment receives."""

from functools import cache

import numpy as np
import pytest

pytest.importorskip("gymnasium")

from gymnasium import spaces
from gymnasium.spaces.utils import flatten
from helpers.specs import mlp_spec
from helpers.toy_runs import SEED, actor_weights, new_model
from oracles import slow_episode
from oracles.toy_environments import first_of

from longstride.errors import SimulatorError
from longstride.rollout.collector import RolloutPlan
from longstride.rollout.gymnasium_collector import GymnasiumCollector
from longstride.rollout.single_step_policy import build_step_policy
from longstride.seeding import stream
from longstride.simulators.gym.adapter import registered
from longstride.simulators.gym.open_environment import seed_of
from longstride.simulators.gym.spaces import build_encode

WALK, ANY = "LongstrideWalk-v0", "LongstrideSpaces-v0"


@cache
def acting(space, sizes):
    """Return the compiled policy, the same one for environments that look alike."""
    return build_step_policy(mlp_spec(sizes, space=space))


def new_collector(name, options, steps, instances=1):
    simulator = registered(name, options)
    model = new_model(simulator, "relu")
    collector = GymnasiumCollector(simulator, model.spec, RolloutPlan(SEED, instances, steps))
    collector.policy = acting(simulator.action_space, tuple(model.spec.actor_sizes))
    return collector, model


def collected(collector, model, count=1):
    """Return trajectories that the next collection does not overwrite, and outcomes."""
    rollouts = collector.collect(actor_weights(model), 0, count)[0]
    return [(type(r.trajectory)(*(a.copy() for a in r.trajectory)), r.finished) for r in rollouts]


def test_rollouts_of_other_sizes_hold_the_same_steps():
    (whole, model), (parts, _) = (new_collector(WALK, {"cut": 4}, 10) for _ in range(2))
    pieces = []
    for steps in (3, 7):
        parts.resize(steps)
        pieces += collected(parts, model)
    ((expected, ended),) = collected(whole, model)
    for name in ("actions", "log_probs", "rewards", "terminated", "truncated"):
        assert np.array_equal(np.concatenate([getattr(piece, name) for piece, _ in pieces]), getattr(expected, name))
    assert [o for _, outcomes in pieces for o in outcomes] == ended


def test_an_environment_that_is_cut_and_goes_on():
    """Cut after 4 steps, so a rollout of 10 holds two episodes and half a third, which the next rollout finishes."""
    collector, model = new_collector(WALK, {"cut": 4}, 10)
    ((first, ended),) = collected(collector, model)
    seeds = [seed_of(stream(SEED, "environment", 0, number)) for number in range(5)]
    shown = [first_of(seed) for seed in seeds]
    expected = [(shown[t // 4], t % 4) for t in range(10)]
    assert first.observations[:10].tolist() == [list(map(float, pair)) for pair in expected]
    assert first.observations[10].tolist() == [shown[2], 2.0]
    assert first.cut_observations.tolist() == [[shown[0], 4.0], [shown[1], 4.0]], "not the observation after the reset"
    assert np.flatnonzero(first.truncated).tolist() == [3, 7]
    assert not first.terminated.any()
    assert first.rewards.tolist() == [1, 2, 3, 4, 1, 2, 3, 4, 1, 2]
    assert [(o.total_reward, o.metrics) for o in ended] == [(10.0, {"length": 4})] * 2
    ((second, ended),) = collected(collector, model)
    assert second.observations[0].tolist() == [shown[2], 2.0]
    assert np.flatnonzero(second.truncated).tolist() == [1, 5, 9]
    assert second.observations[10].tolist() == [shown[4], 4.0], "the end of a rollout that is the end of an episode"
    assert len(second.cut_observations) == 2
    assert [o.total_reward for o in ended] == [10.0] * 3


def test_terminated_is_not_truncated_and_wins():
    collector, model = new_collector(WALK, {"end": 3, "cut": 3}, 8)
    ((t, _),) = collected(collector, model)
    assert np.flatnonzero(t.terminated).tolist() == [2, 5]
    assert not t.truncated.any()
    assert len(t.cut_observations) == 0


def test_every_step_is_that_of_the_slow_policy():
    """The mask of the walk forbids the middle action at even steps; the environment counts actions from -1."""
    collector, model = new_collector(WALK, {"end": 5}, 23, instances=2)
    received = [each.environment._step.__self__.unwrapped.received for each in collector._instances]
    for index, (t, _) in enumerate(collected(collector, model, 2)):
        assert t.masks.tolist() == [[True, row % 5 % 2 == 1, True] for row in range(23)]
        for row in range(23):
            if row % 5 == 0:
                rng = stream(SEED, "environment", index, row // 5)
                seed_of(rng)
            no_features = np.zeros((3, 0), np.float32)
            action, log_prob = slow_episode._sample(model, t.observations[row], t.masks[row], no_features, rng)
            assert t.actions[row] == action
            assert t.log_probs[row] == pytest.approx(log_prob, rel=1e-5, abs=1e-5)
        assert received[index] == (t.actions - 1).tolist()
        assert len(set(received[index])) == 3
    assert received[0] != received[1]


SQUARE = spaces.Box(0, 1, (2, 2))
OBSERVATIONS = {
    "box": spaces.Box(-1, 1, (2, 3), np.float64),
    "image": spaces.Box(0, 255, (4, 4, 3), np.uint8),
    "discrete": spaces.Discrete(5, start=2),
    "multi_discrete": spaces.MultiDiscrete([3, 2]),
    "multi_binary": spaces.MultiBinary(4),
    "dict": spaces.Dict({"b": spaces.Discrete(3), "a": spaces.Dict({"x": spaces.Box(0, 1, (2,)), "y": SQUARE})}),
    "tuple": spaces.Tuple([spaces.Box(-2, 2, (3,), np.float32), spaces.MultiBinary(2), spaces.Discrete(2)]),
}


@pytest.mark.parametrize("space", OBSERVATIONS.values(), ids=OBSERVATIONS)
def test_observations_are_flattened_as_gymnasium_flattens_them(space):
    size, encode = build_encode(space, "a test")
    space.seed(3)
    samples = [space.sample() for _ in range(5)]
    rows = np.full((5, size), np.nan, np.float32)
    for sample, row in zip(samples, rows, strict=True):
        encode(sample, row)
    assert np.array_equal(rows, np.stack([flatten(space, sample) for sample in samples]).astype(np.float32))
    assert len(np.unique(rows, axis=0)) > 1


@pytest.mark.parametrize(
    ("observation", "sentence"),
    [
        ({"b": 1}, r"observation\['a'\]\['x'\] is missing"),
        (
            {"b": 3, "a": {"x": np.zeros(2, np.float32), "y": np.zeros((2, 2), np.float32)}},
            r"\['b'\] is 3, which is not",
        ),
        ({"b": 1, "a": {"x": np.zeros(3), "y": 0}}, r"\['x'\] has shape \(3,\), declared is \(2,\)"),
        ({"b": 1, "a": {"x": np.zeros(2, complex), "y": 0}}, r"\['x'\] has dtype complex128, declared is float32"),
        (7, r"is missing"),
    ],
)
def test_a_part_of_an_observation_that_is_wrong_is_named(observation, sentence):
    size, encode = build_encode(OBSERVATIONS["dict"], "a test")
    with pytest.raises(ValueError, match=sentence):
        encode(observation, np.zeros(size, np.float32))


def test_an_observation_of_doubles_is_taken():
    size, encode = build_encode(OBSERVATIONS["dict"], "a test")
    row = np.zeros(size, np.float32)
    encode({"b": 1, "a": {"x": [0.25, 0.5], "y": np.full((2, 2), 0.75)}}, row)
    assert row.tolist() == [0.25, 0.5, 0.75, 0.75, 0.75, 0.75, 0.0, 1.0, 0.0]


ACTIONS = {
    "discrete": spaces.Discrete(3, start=5),
    "multi_discrete": spaces.MultiDiscrete([3, 2]),
    "matrix": spaces.MultiDiscrete(np.array([[3, 2], [2, 5]])),
    "multi_binary": spaces.MultiBinary([2, 2]),
    "box": spaces.Box(-1, 1, (2,), np.float32),
    "box_matrix": spaces.Box(np.array([[-1, 0], [0, -np.inf]]), np.array([[1, 2], [1, np.inf]]), dtype=np.float64),
}


@pytest.mark.parametrize("space", ACTIONS.values(), ids=ACTIONS)
def test_actions_are_in_the_space_and_are_those_of_the_trajectory(space):
    """The environment itself asserts that each action is contained in its space."""
    options = {"observations": spaces.Box(-1, 1, (3,)), "actions": space}
    collector, model = new_collector(ANY, options, 30)
    env = collector._instances[0].environment._step.__self__.unwrapped
    ((t, _),) = collected(collector, model)
    ours = [slow_episode.on_bounds(collector.simulator.action_space, action) for action in t.actions]
    start = getattr(space, "start", 0) if isinstance(space, spaces.Discrete) else 0
    for action, received in zip(ours, env.received, strict=True):
        assert np.array_equal(np.ravel(received), np.ravel(action) + start)
    assert len({np.asarray(action).tobytes() for action in env.received}) > 1


def test_masks_come_from_the_method_too():
    options = {"observations": spaces.Box(-1, 1, (3,)), "actions": spaces.Discrete(3)}
    collector, model = new_collector("LongstrideMethod-v0", options, 30)
    ((t, _),) = collected(collector, model)
    assert (t.masks == [True, False, True]).all()
    assert set(t.actions.tolist()) == {0, 2}


@pytest.mark.parametrize(
    ("fault", "sentence"),
    [
        ("shape", r"observation has shape \(1, 2\), declared is \(2,\)"),
        ("dtype", r"observation has dtype <U1, declared is float32"),
        ("nan", r"observation\[0\] is nan; numbers must be finite"),
        ("reward", "step returned the reward inf"),
        ("raise", "step failed with ValueError: the legs broke"),
        ("mask", "the action mask has 2 values, not 3"),
        ("end", r"step returned terminated array\(\[False, +True\]\) and .*; each must be one truth value"),
    ],
)
def test_a_fault_is_named_with_episode_and_step(fault, sentence):
    """After 3 steps, where a rollout ends too: with the faulty observation, unless it is the fault of what follows."""
    collector, model = new_collector(WALK, {"fault": fault}, 3)
    step = 2 if fault in ("reward", "end") else 3
    with pytest.raises(SimulatorError, match=rf"episode 0 of instance 0, step {step}: .*{sentence}"):
        collected(collector, model)
        collected(collector, model)


def test_an_info_that_is_none_is_named():
    collector, model = new_collector(WALK, {"fault": "info"}, 3)
    with pytest.raises(
        SimulatorError, match="instance 0, step 0: reset returned the info None, which is not a dictionary"
    ):
        collected(collector, model)


def test_a_nan_within_a_rollout_is_found_by_the_policy():
    collector, model = new_collector(WALK, {"fault": "nan"}, 9)
    with pytest.raises(SimulatorError, match=r"episode 0 of instance 0, step 3: observation\[0\] is nan"):
        collected(collector, model)


def test_an_episode_depends_on_copy_and_number_only_and_a_restored_collector_begins_the_next_ones():
    collector, model = new_collector(WALK, {"cut": 4}, 10, instances=2)
    collected(collector, model, 2)
    state = collector.state_dict()
    again, _ = new_collector(WALK, {"cut": 4}, 12, instances=2)
    again.load_state_dict(state)
    for index, (t, _) in enumerate(collected(again, model, 2)):
        numbers = [3, 4, 5]
        seeds = [seed_of(stream(SEED, "environment", index, number)) for number in numbers]
        assert t.observations[:12:4, 0].tolist() == [first_of(s) for s in seeds]
        assert t.observations[0, 1] == 0.0
