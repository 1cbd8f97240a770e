"""Size of an iteration's rollout: how many environment instances, how many steps."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("pydantic")

from helpers.setups import set_up
from oracles.toy_simulators import Bandit, Shop

from longstride.config import Config
from longstride.hardware.planning.choices import batch_size
from longstride.rollout.trajectory import trajectory_bytes
from longstride.simulators.loading import load_simulator
from longstride.training.assembly import components
from longstride.training.assembly.plan import plan_settings
from longstride.training.assembly.sizes import policy_spec


def rollout_size(simulator, **values):
    return set_up(Config.model_validate(values), simulator).size


def test_rollouts_grow_from_8192_steps_to_the_usual_size():
    loan_desk = load_simulator("process").simulator
    size = rollout_size(loan_desk, training_episodes=1000)
    assert (size.instances, size.first, size.samples) == (32, 8192, 372_000)
    assert size.counted == pytest.approx(62_000, rel=0.01)  # steps of an episode
    assert size.in_words == "8,192 to 372,000 steps an iteration, depending on the gradient noise"
    assert rollout_size(Shop()).counted == 50_000  # its episodes are short


def test_only_normalised_observations_of_rollouts_that_grow_have_the_narrow_limit():
    """A simulator that scales its observations may write any number."""
    changes = {}, {"normalise_observations": False}, {"grow_rollouts": False}, {"num_envs": 4}
    assert [policy_spec(Config(**each), Bandit()).observation_limit for each in changes] == [4.0, 10.0, 10.0, 10.0]


def test_episodes_are_given_up_after_ten_horizons_where_rollouts_grow():
    assert rollout_size(Shop()).restart_after == 5000
    assert rollout_size(Shop(), horizon=50.0).restart_after == 500
    for fixed in ({"rollout_steps": 100}, {"grow_rollouts": False}, {"algorithm": "grpo"}):
        assert rollout_size(Shop(), **fixed).restart_after == 0


def test_a_short_run_sets_aside_no_more_memory_than_its_rollouts_may_take():
    assert rollout_size(Shop()).samples == pytest.approx(50 * 50_000 / 160, abs=32)
    assert rollout_size(Shop(), training_episodes=2).samples == 2048


@pytest.mark.parametrize(
    ("episodes", "first", "batch"),
    [(1, 2_048, 128), (8, 2_496, 156), (13, 4_032, 252), (14, 8_192, 512), (200, 8_192, 512)],
)
def test_a_short_run_begins_with_small_rollouts_and_minibatches(episodes, first, batch):
    made = set_up(Config.model_validate({"training_episodes": episodes}), Shop())
    assert (made.size.first, made.largest_batch) == (first, batch)
    assert made.size.samples == max(first, episodes * 50_000 // 160 // 32 * 32)


def test_a_plan_says_what_makes_its_minibatches_small():
    short, long = (plan_settings(set_up(Config(training_episodes=n), Shop())) for n in (2, 50))
    assert (short.batch_reason, short.largest_batch) == ("at least 16 minibatches", 128)
    assert (long.batch_reason, long.largest_batch) == ("", 512)
    assert batch_size(short, 10**6) == (128, "2,048 samples, at least 16 minibatches, memory would allow 1,000,000")


@pytest.mark.parametrize("values", [{"batch_size": 700}, {"auto_batch_size": False}, {"num_envs": 3}])
def test_a_minibatch_that_a_user_named_stays(values):
    made = set_up(Config.model_validate({"training_episodes": 2, **values}), Shop())
    chosen = replace(made, settings=replace(made.settings, sources=dict.fromkeys(values, "flag")))
    assert chosen.largest_batch == values.get("batch_size", 512)


def test_a_rollout_of_the_loan_desk_that_does_not_grow_is_six_half_years():
    loan_desk = load_simulator("process").simulator
    size = rollout_size(loan_desk, grow_rollouts=False)
    assert (size.instances, size.steps) == (6, 0)
    assert size.samples == 6 * size.expected_steps == pytest.approx(372_000, rel=0.01)
    assert size.in_words == f"about {size.expected_steps:,} steps an episode"


def test_short_episodes_are_played_in_as_many_instances_as_fill_a_rollout_up_to_a_limit():
    class Longer(Bandit):
        max_steps = 5_000

    assert rollout_size(Longer(), grow_rollouts=False).instances == 74
    assert rollout_size(Shop(), grow_rollouts=False).instances == 1024


def test_the_users_number_and_rollout_steps_come_first():
    assert rollout_size(Shop(), num_envs=3).instances == 3
    assert rollout_size(Shop(), rollout_steps=100).instances == 1
    size = rollout_size(Shop(), rollout_steps=100, num_envs=3)
    assert (size.instances, size.steps, size.expected_steps, size.samples) == (3, 100, 100, 300)
    assert size.in_words == "300 steps an iteration"


def test_gymnasium_environments_are_eight_and_one_where_rollouts_keep_their_size():
    pytest.importorskip("gymnasium")
    size = rollout_size(load_simulator("gymnasium:CartPole-v1").simulator)
    assert (size.instances, size.steps, size.first, size.unit) == (8, 390, 3120, 10_000)
    short = rollout_size(load_simulator("gymnasium:CartPole-v1").simulator, training_episodes=2)
    assert (short.instances, short.steps, short.first) == (8, 128, 1024)
    size = rollout_size(load_simulator("gymnasium:CartPole-v1").simulator, grow_rollouts=False)
    assert (size.instances, size.steps, size.samples, size.first) == (1, 2048, 2048, 0)


def arrays_of(collector):
    """Return all arrays of a collector's trajectories."""
    trajectories = [i.trajectory for i in collector._instances] if collector.plan.steps else [collector._rows]
    return [array for trajectory in trajectories for array in trajectory]


@pytest.mark.parametrize(
    ("simulator", "values"),
    [
        (Shop, {"grow_rollouts": False, "num_envs": 3}),
        (Shop, {"rollout_steps": 100, "num_envs": 3}),
        (Bandit, {"rollout_steps": 33}),
        (Shop, {"training_episodes": 2}),  # rollouts that grow
        ("gymnasium:CartPole-v1", {"rollout_steps": 70, "num_envs": 2}),
    ],
)
def test_predicted_pinned_memory_is_what_collectors_allocate(simulator, values, monkeypatch):
    """torch gives pinned memory in powers of two (CachingHostAllocator.h, PowerOf2Ceil); the rest is NumPy's."""
    if isinstance(simulator, str):
        pytest.importorskip("gymnasium")
        simulator = load_simulator(simulator).simulator
    else:
        simulator = simulator()
    pinned = []

    def allocator(pin):
        assert pin
        return lambda shape, dtype: pinned.append(np.empty(shape, dtype)) or pinned[-1]

    monkeypatch.setattr(components, "host_allocator", allocator)
    setup = set_up(Config.model_validate(values), simulator)
    plan = SimpleNamespace(simulation_threads=1, lockstep=0, device="cuda", collect_on="cpu")
    arrays = arrays_of(components.build_collector(setup, plan))
    plain = [array for array in arrays if not any(array is other for other in pinned)]
    assert len(arrays) - len(plain) == len(pinned)
    rounded = sum(2 ** int(np.ceil(np.log2(array.nbytes))) for array in pinned if array.size)
    assert setup.size.memory.pinned_bytes == rounded + sum(array.nbytes for array in plain)
    memory = setup.size.memory
    assert memory.bytes == memory.copies * trajectory_bytes(setup.spec, memory.decisions)
