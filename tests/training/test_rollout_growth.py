"""Rollouts that grow with the noise: the rules on given figures, and runs that follow them."""

import math

import pytest
from training.test_trainer import assert_same_state, figures, new_run, no_tensorboard, train  # noqa: F401

from longstride.errors import UserError
from longstride.learning.gradient_noise import GradientNoise
from longstride.training.rollout_growth import GrowthLimits, RolloutGrowth, next_rate_factor, next_size, wanted_steps
from longstride.training.run_directory.checkpoint import load_checkpoint
from longstride.training.run_directory.metrics_log import read_metrics

LIMITS = GrowthLimits(instances=32, first=8192, most=200_000, total=32_000_000)


@pytest.mark.parametrize(
    ("noise", "signal", "steps"), [(50_000.0, 1.0, 50_000), (3.0, 0.5, 6), (3.0, 0.0, None), (3.0, -1.0, None)]
)
def test_a_rollout_is_wanted_that_is_half_noise(noise, signal, steps):
    """Of n steps the gradient's variance is noise / n, which equals the signal at n = noise / signal."""
    assert wanted_steps(noise, signal) == steps


@pytest.mark.parametrize(
    ("size", "wanted", "chosen", "reason"),
    [
        (8192, 12_000, 12_000, "as suggested"),
        (8192, 100_000, 16_384, "at most twice the last size"),
        (8192, None, 16_384, "at most twice the last size"),
        (150_000, 900_000, 200_000, "1/160 of the run"),
        (200_000, 900_000, 200_000, ""),  # it is a tenth already
        (8192, 8500, 8192, ""),  # less than a tenth more
        (16_384, 4000, 16_384, ""),  # rollouts never shrink
    ],
)
def test_the_next_size_and_its_reason(size, wanted, chosen, reason):
    assert next_size(size, wanted, LIMITS) == (chosen - chosen % 32, reason)


def test_the_memory_that_is_set_aside_is_a_limit():
    limits = GrowthLimits(32, 8192, 372_000, 10**9)
    assert next_size(300_000, None, limits) == (372_000, "the most that memory is reserved for")


def test_a_short_run_keeps_the_first_size():
    assert next_size(8192, 50_000, GrowthLimits(32, 8192, 8192, 50_000)) == (8192, "")


@pytest.mark.parametrize(
    ("divergence", "epochs", "factor"),
    [(0.001, 3, 1.5), (0.008, 3, 1.0), (0.001, 2, 1.0), (0.02, 1, 1 / 1.5), (0.012, 1, 1.0), (None, 3, 1.0)],
)
def test_the_learning_rate_follows_the_divergence(divergence, epochs, factor):
    assert next_rate_factor(1.0, divergence, 0.01, epochs, 3) == pytest.approx(factor)


@pytest.mark.parametrize(
    ("divergence", "epochs", "factor"),
    [(0.003, 3, 1 / 1.5), (0.003, 1, 1 / 1.5), (0.001, 3, 1.0), (0.0004, 3, 1.5), (0.0004, 2, 1.0)],
)
def test_a_policy_that_is_nearly_settled_has_a_smaller_target(divergence, epochs, factor):
    """With a tenth left of the share from which on it falls, the target of 0.01 is 0.001."""
    assert next_rate_factor(1.0, divergence, 0.01, epochs, 3, left=0.03) == pytest.approx(factor)
    assert next_rate_factor(1.0, divergence, 0.01, epochs, 3, left=0.9) >= factor


def test_the_learning_rate_stays_in_its_limits_and_without_a_target_as_it_is():
    assert next_rate_factor(9.0, 0.0, 0.01, 3, 3) == 10.0
    assert next_rate_factor(0.06, 1.0, 0.01, 1, 3) == 0.05
    assert next_rate_factor(1.0, 1.0, 0.0, 1, 3) == 1.0


def test_what_is_learned_of_the_noise_is_said():
    growth = RolloutGrowth(LIMITS)
    line = growth.learn(GradientNoise(signal=2.0, noise=3.0))
    assert line == "Gradient noise suggests 12,288 steps an iteration; collecting 12,288 from now on (as suggested)."
    assert (growth.done, growth.size, growth.steps) == (8192, 12_288, 384)
    assert growth.learn(None) is None
    assert growth.learn(GradientNoise(float("nan"), float("nan"))) is None
    assert growth.learn(GradientNoise(-9.0, 3.0)).startswith(
        "Gradient noise suggests more steps than can be estimated;"
    )
    again = RolloutGrowth(LIMITS)
    again.load_state_dict(growth.state_dict())
    assert again == growth
    assert growth.done == 8192 + 3 * 12_288


def test_the_run_ends_with_its_steps():
    growth = RolloutGrowth(GrowthLimits(2, 40, 100, 100))
    shares = []
    while growth.share() < 1.0:
        shares.append((round(growth.share(), 2), growth.iterations_left()))
        growth.learn(None)
    assert shares == [(0.0, 3), (0.4, 2), (0.8, 1)]
    assert growth.iterations_left() == 0


GROWING = {
    "simulator": "oracles.toy_simulators:Bandit",
    "activation": "tanh",
    "gamma": 0.0,
    "num_envs": 0,
    "training_episodes": 1,
    "target_kl": 0.01,
    "batch_size": 256,
    "evaluate_every": 0,
}


@pytest.fixture(scope="module", autouse=True)
def _large_rollouts_for_short_runs():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("longstride.training.assembly.sizes.LARGEST_SHARE", 2)
        yield


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    directory = tmp_path_factory.mktemp("growing") / "whole"
    with pytest.MonkeyPatch.context() as patch:
        no_display(patch)
        assert train(new_run(directory, **GROWING, simulation_threads=1)) is True
    return directory


def no_display(patch):
    from longstride.training.run_directory.metrics_log import MetricsLog

    patch.setattr(MetricsLog, "_open_board", lambda *_: None)


def test_a_growing_run_records_what_it_did_and_why(whole):
    records = read_metrics(whole)
    sizes = [r["steps"] for r in records]
    assert sizes[0] == 8192
    assert sizes[1:] == [r["next_rollout_steps"] for r in records[:-1]]
    assert sum(sizes[:-1]) < 50_000 <= sum(sizes)
    assert records[-1]["share_done"] == 1.0
    assert all(r["gradient_noise"] > 0.0 for r in records)
    rates = [r["learning_rate"] / (3e-3 * (1 - sum(sizes[:i]) / 50_000)) for i, r in enumerate(records)]
    assert rates == pytest.approx([1.0, *(r["learning_rate_factor"] for r in records[:-1])])
    assert {r["gamma"] for r in records} == {math.exp(-1 / 500)}  # episodes of 256 steps are shorter than 5,000


def test_where_episodes_are_long_the_horizon_grows_with_the_run_to_the_whole_of_it(tmp_path):
    """From a tenth of 20 decisions, in equal shares of the run by equal factors, to all of them after its half."""
    long = {**GROWING, "horizon": 20.0}
    assert train(new_run(tmp_path, **long), stop_after=2) is False
    assert train(new_run(tmp_path, **long, resume=True)) is True
    records = read_metrics(tmp_path)
    shares = [0.0, *(r["share_done"] for r in records[:-1])]
    horizons = [-1.0 / math.log(r["gamma"]) for r in records]
    assert horizons == pytest.approx([min(2.0 * 100.0**share, 20.0) for share in shares])
    assert horizons[0] == pytest.approx(2.0) and 0.0 < shares[1] < 0.5 < shares[-1]


@pytest.mark.parametrize(
    "changes",
    [
        {"grow_horizon": False},
        {"gamma": 0.97},
        {"grow_rollouts": False},
        {"simulator": "cartpole", "activation": "relu", "num_hidden_layers": 1},  # whose episodes are terminated
    ],
)
def test_the_horizon_is_whole_from_the_beginning_where_that_is_wanted_or_ends_have_a_meaning(changes, tmp_path):
    settings = {**GROWING, "horizon": 20.0, **changes}
    run = new_run(tmp_path / "run", **settings)
    assert train(run, stop_after=1) is (run.trainer.length.steps is None)
    whole = changes.get("gamma", math.exp(-1 / settings["horizon"]))
    assert read_metrics(tmp_path / "run")[0]["gamma"] == pytest.approx(whole)


@pytest.mark.parametrize("stop_after", [1, 3])
def test_a_growing_run_resumes_to_the_bit(whole, tmp_path, stop_after):
    parts = tmp_path / "parts"
    assert train(new_run(parts, **GROWING, simulation_threads=2), stop_after=stop_after) is False
    assert train(new_run(parts, **GROWING, resume=True)) is True
    assert_same_state(whole, parts)
    assert figures(whole) == figures(parts)
    assert load_checkpoint(whole)[1]["growth"] == load_checkpoint(parts)[1]["growth"]


def test_a_named_size_or_the_flag_keeps_rollouts_as_they_are(tmp_path):
    for name, changes in {"size": {"num_envs": 2}, "flag": {"grow_rollouts": False}}.items():
        run = new_run(tmp_path / name, **{**GROWING, **changes})
        assert run.trainer.length.steps is None
        assert run.trainer.settings.iterations == 1
        run.lock.release()


def test_a_resume_with_another_way_of_collecting_is_refused(whole, tmp_path):
    with pytest.raises(UserError, match=r"32 environment instances|ROLLOUT_STEPS"):
        new_run(whole, **{**GROWING, "grow_rollouts": False}, resume=True)
