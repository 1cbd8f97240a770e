"""Paired runs, from made-up metrics to sentences: each number against a hand-computed one or another library."""

import itertools
import json

import numpy as np
import pytest
from scipy import stats

from longstride.commands.ab.report import CommonMetric, compare, outcome_of, played_the_same, run_figures, table_of
from longstride.training.evaluation.statistics import paired_difference, paired_ratio


def record(number, simulation=1.0, transfer=0.0, update=2.0, metric=10.0, **more):
    return {
        **{"iteration": number, "steps": 100, "return": -metric, "metrics": {"cycle_time": metric}},
        **{"simulation_seconds": simulation, "transfer_seconds": transfer, "update_seconds": update},
        **{"precision": "fp32", "batch_size": 63, "execution": "eager", "trajectory_sha256": f"{number}"},
        **more,
    }


def pair(a, b, same=False):
    sides = {name: run_figures(records, 60.0, "cycle_time", 64) for name, records in (("a", a), ("b", b))}
    return {"seed": 0, "first": "a", **sides, "played_the_same": same}


def test_a_ratio_by_hand():
    # log ratios ln 2 and ln 8: mean ln 4, standard deviation ln 4 / sqrt 2, error ln 4 / 2; t(1) is tan(0.475 pi)
    found = paired_ratio([2.0, 80.0], [1.0, 10.0])
    half = np.tan(0.475 * np.pi) * np.log(4) / 2
    assert found.value == pytest.approx(4.0)
    assert (found.low, found.high) == pytest.approx((4 * np.exp(-half), 4 * np.exp(half)))
    assert (found.bootstrap_low, found.bootstrap_high) == pytest.approx((2.0, 8.0)), "both drawn alike once in four"


def test_intervals_against_scipy():
    rng = np.random.default_rng(1)
    a, b = rng.lognormal(size=(2, 12))
    logs = np.log(b / a)
    found = paired_ratio(b, a)
    expected = stats.ttest_1samp(logs, 0.0).confidence_interval(0.95)
    assert np.log([found.low, found.high]) == pytest.approx(list(expected))
    boot = stats.bootstrap((logs,), np.mean, method="percentile", n_resamples=20_000).confidence_interval
    assert np.log([found.bootstrap_low, found.bootstrap_high]) == pytest.approx(list(boot), abs=0.05)
    difference = paired_difference(b, a)
    expected = stats.ttest_rel(b, a).confidence_interval(0.95)
    assert (difference.low, difference.high) == pytest.approx(list(expected))
    assert difference.value == pytest.approx(np.mean(b) - np.mean(a))


def test_the_bootstrap_of_three_against_all_their_resamples():
    values = np.array([0.0, 1.0, 5.0])
    means = np.sort([np.mean(drawn) for drawn in itertools.product(values, repeat=3)])  # 27, each as likely
    found = paired_difference(values, np.zeros(3))
    assert (found.bootstrap_low, found.bootstrap_high) == pytest.approx((means[0], means[-1])), "1/27 is above 2.5 %"
    assert paired_difference(values, np.zeros(3)) == found, "the same pairs always say the same"


def test_of_five_values_the_bootstrap_is_too_narrow_and_student_is_not():
    rng = np.random.default_rng(3)
    found = [paired_difference(rng.normal(size=5), np.zeros(5)) for _ in range(1000)]
    student = np.mean([each.low <= 0 <= each.high for each in found])
    bootstrap = np.mean([each.bootstrap_low <= 0 <= each.bootstrap_high for each in found])
    error = np.sqrt(0.05 * 0.95 / 1000)
    assert abs(student - 0.95) < 3 * error
    assert 0.79 < bootstrap < 0.87, "docs/how-to/compare-two-settings.md says 83 of 100"


def test_one_pair_has_no_interval_and_zero_no_ratio():
    assert paired_ratio([3.0], [2.0]).value == pytest.approx(1.5)
    assert paired_ratio([3.0], [2.0]).low is None
    assert paired_ratio([1.0, 1.0], [0.0, 1.0]) is None


def test_the_first_round_warms_up_and_the_rest_are_medians():
    records = [record(1, 9.0, 1.0, 30.0), *(record(n, s, 0.5, u) for n, s, u in ((2, 1, 4), (3, 3, 2), (4, 2, 9)))]
    found = run_figures(records, 100.0, "cycle_time", 64)
    assert found["seconds"] == pytest.approx(
        {
            **{"simulation": 2.0, "transfer": 0.5, "update": 4.0, "iteration": 5.5, "step": 0.055},
            **{"first_iteration": 40.0, "outside_iterations": 100.0 - 40.0 - 5.5 - 5.5 - 11.5},
        }
    )
    assert found["chosen"] == {"precision": "fp32", "batch_size": 64, "execution": "eager"}


def test_the_outcome_is_the_last_evaluation_or_the_later_half():
    rounds = [record(n, metric=value) for n, value in enumerate([100.0, 50.0, 20.0, 10.0, 4.0], 1)]
    assert outcome_of(rounds, "cycle_time") == pytest.approx(7.0)
    assert outcome_of(rounds, "return") == pytest.approx(-7.0)
    assert outcome_of(rounds[:3], "cycle_time") == pytest.approx(20.0)
    assert outcome_of(rounds, "unknown") is None
    rounds[2]["evaluation"] = {"metrics": {"cycle_time": {"mean": 1.5}}}
    assert outcome_of(rounds, "cycle_time") == pytest.approx(1.5)


def test_played_the_same_needs_equal_hashes_and_all_of_them():
    one, two = [record(1), record(2)], [record(1), record(2)]
    assert played_the_same(one, two)
    assert not played_the_same(one, two[:1])
    assert not played_the_same(one, [record(1), record(2, trajectory_sha256="other")])
    unknown = [record(1, trajectory_sha256=None)]
    assert not played_the_same(unknown, unknown)


def noisy_pairs(slower_update=1.0, better=0.0, count=5, same=False):
    rng = np.random.default_rng(2)

    def run(factor, gain):
        noise = rng.normal(1.0, 0.05, size=(4, 2))
        return [record(n, s, 0.0, 2 * u * factor, 10 + s - gain) for n, (s, u) in enumerate(noise, 1)]

    return [pair(run(1.0, 0.0), run(slower_update, better), same) for _ in range(count)]


def test_a_planted_slowdown_is_found_in_its_phase_alone():
    found = compare(noisy_pairs(slower_update=4.0), CommonMetric("cycle_time", True))
    ratio = {name: row["ratio"] for name, row in found["seconds"].items()}
    assert ratio["update"]["low"] < 4.0 < ratio["update"]["high"]
    assert ratio["update"]["low"] > 3.5
    assert ratio["simulation"]["low"] < 1.0 < ratio["simulation"]["high"]
    assert ratio["iteration"]["value"] == pytest.approx((1 + 8) / 3, rel=0.1)
    assert ratio["step"]["value"] == pytest.approx(ratio["iteration"]["value"])
    assert ratio["transfer"] is None
    verdicts = {line.split(":")[0]: line.rpartition(": ")[2] for line in found["sentences"] if ": " in line}
    assert verdicts["Update"] == verdicts["Iteration"] == "A is faster."
    assert verdicts["Simulation"] == verdicts["Learning"] == "no difference is shown."
    assert not any(line.startswith("Transfer") for line in found["sentences"])


def test_equal_settings_have_a_ratio_about_one_and_the_same_outcome():
    runs = [pair["a"] for pair in noisy_pairs()]
    pairs = [
        {"a": run, "b": run | {"seconds": other["seconds"]}, "played_the_same": True}
        for run, other in zip(runs, runs[::-1], strict=True)
    ]
    found = compare(pairs, CommonMetric("cycle_time", True))
    for name in ("simulation", "update", "iteration"):
        assert found["seconds"][name]["ratio"]["low"] < 1.0 < found["seconds"][name]["ratio"]["high"]
    assert found["outcome"]["difference"] == {
        **{"value": 0.0, "low": 0.0, "high": 0.0, "bootstrap_low": 0.0, "bootstrap_high": 0.0}
    }
    assert "Learning: both sides played the same steps in every iteration, to the bit." in found["sentences"]


@pytest.mark.parametrize(
    ("better", "lower", "verdict"), [(3, True, "better"), (3, False, "worse"), (-3, True, "worse")]
)
def test_speed_bought_with_learning_is_said(better, lower, verdict):
    found = compare(noisy_pairs(0.5, better), CommonMetric("cycle_time", lower))
    assert found["outcome"]["difference"]["value"] == pytest.approx(-better, abs=0.2)
    lines = [line for line in found["sentences"] if line.startswith("Learning: ")]
    assert len(lines) == 1
    assert lines[0].endswith(f"B learns {verdict}.")
    assert any(line.startswith("Update: ") and line.endswith("B is faster.") for line in found["sentences"])


def test_what_cannot_be_said_is_not():
    one = compare(noisy_pairs(count=1), CommonMetric("cycle_time", True))
    assert "Few pairs (1): the same command with more --pairs adds to them." in one["sentences"]
    assert any("in the one pair that there is." in line for line in one["sentences"])
    assert not any("faster" in line or "shown" in line for line in one["sentences"])
    json.dumps(one, allow_nan=False)
    assert table_of(one).row_count == 7
    other = compare(noisy_pairs(), CommonMetric("", True))
    assert other["outcome"] is None
    assert any(line.startswith("Learning: not compared") for line in other["sentences"])


def test_what_ran_is_said():
    pairs = noisy_pairs()
    assert compare(pairs, CommonMetric("", True))["sentences"][0] == (
        "Both ran with eager steps in fp32, minibatches of 64 samples."
    )
    for each in pairs:
        each["b"]["chosen"] = {"precision": "bf16", "batch_size": 4096, "execution": "graph"}
    assert compare(pairs, CommonMetric("", True))["sentences"][0] == (
        "A ran with eager steps in fp32, minibatches of 64 samples; "
        "B with graph steps in bf16, minibatches of 4,096 samples."
    )
