"""Parts of a run: how many steps its optimiser takes, what its forward pass is given, which outcomes are drawn."""

from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("pydantic")

from helpers.setups import set_up
from oracles.toy_simulators import Shop

from longstride.config import Config
from longstride.training.assembly import components
from longstride.training.assembly.components import _run_steps
from longstride.training.time_budget import NO_LIMIT


def run_steps(batch, **values):
    """Return the predicted steps of a run, and the size of its rollouts."""
    setup = set_up(Config.model_validate({"num_epochs": 10, **values}), Shop())
    return _run_steps(setup, SimpleNamespace(batch_size=batch)), setup.size


def counted(iterations, samples, batch, epochs=10):
    """Return the steps of rollouts of one size, each split into minibatches of its own."""
    return sum(-(-samples // batch) * epochs for _ in range(iterations))


@pytest.mark.parametrize("batch", [100, 1000, 3000])
def test_steps_of_rollouts_of_one_size_are_those_of_all_their_minibatches(batch):
    steps, size = run_steps(batch, rollout_steps=1000, num_envs=3, training_episodes=40, num_epochs=7)
    assert size.samples == 3000
    assert steps == counted(40, 3000, batch, 7)


def test_steps_where_rollouts_grow_are_those_of_the_steps_that_training_episodes_count():
    steps, size = run_steps(1000, training_episodes=40)
    assert (size.first > 0, size.counted) == (True, 50_000)
    assert steps == pytest.approx(40 * 50_000 // 1000 * 10, rel=0.1)


def test_nobody_knows_the_steps_of_a_run_that_a_time_budget_ends():
    setup = set_up(Config(training_time="1h") if "training_time" in Config.model_fields else Config(), Shop())
    limitless = SimpleNamespace(config=setup.config.model_copy(update={"training_episodes": NO_LIMIT}), size=setup.size)
    assert _run_steps(limitless, SimpleNamespace(batch_size=1000)) == 0


@pytest.mark.parametrize(("samples", "batch"), [(2048, 65_536), (1500, 1024)])
def test_every_rollout_has_minibatches_of_its_own(samples, batch):
    """2,048 samples at 65,536 are a step for each epoch of each of 1,000 rollouts, and not 32 epochs in all."""
    steps, _ = run_steps(batch, rollout_steps=samples, training_episodes=1000)
    assert steps == pytest.approx(counted(1000, samples, batch), rel=0.1)


@pytest.mark.parametrize(("chosen", "bf16"), [("bf16", True), ("fp32", False)])
def test_the_forward_pass_keeps_states_in_the_format_of_the_plan(monkeypatch, chosen, bf16):
    monkeypatch.setattr(components, "TorchForward", lambda *arguments: arguments)
    plan = SimpleNamespace(collect_on="gpu", policy_states=chosen)
    spec, halves, rows, device, graphs, *formats = components._build_forward(set_up(Config(), Shop()), plan, 20)
    assert (halves, rows, device.type, formats) == (2, 16, "cuda", [bf16])
    assert graphs is not None
    assert spec.observation_size == Shop().observation_size


class Large(Shop):
    """A shop whose state takes more than 16 KiB."""

    state_dtype = np.dtype([*Shop.state_dtype.descr, ("more", np.float64, (2_048,))])


class Hidden(Shop):
    """A shop that forbids excursions: its observations hide a part of the state."""

    exploring_starts = False


@pytest.mark.parametrize(
    ("simulator", "changes", "expected"),
    [
        (Shop, {}, 16),
        (Shop, {"outcome_draws": 3}, 3),
        (Shop, {"outcome_draws": 0}, 0),
        (Hidden, {}, 16),
        (Large, {}, 0),
        (Shop, {"rollout_steps": 100}, 0),
        (Shop, {"algorithm": "grpo"}, 0),
        (Shop, {"policy_network": "mingru"}, 0),
        (Shop, {"rollout_lag": 1}, 0),
        (Shop, {"collect_on": "torch"}, 0),
    ],
)
def test_outcomes_are_drawn_where_copies_can_be_played(simulator, changes, expected):
    setup = set_up(Config.model_validate(changes), simulator())
    plan = SimpleNamespace(collect_on=changes.get("collect_on", "cpu"))
    assert components._draws(setup, plan) == expected


def test_a_simulator_that_forbids_excursions_has_none():
    plan = SimpleNamespace(collect_on="cpu")
    assert [components._explorers(set_up(Config(), kind()), plan) for kind in (Shop, Hidden)] == [4, 0]
