"""The table of gaps from given results, and the problems that are trained."""

import io

import pytest
from rich.console import Console

from benchmarks.optima import ALGORITHMS, PROBLEMS, over_seeds, table_of
from longstride.config import Config
from longstride.simulators.loading import load_simulator


def printed(table):
    text = io.StringIO()
    Console(file=text, width=160).print(table)
    return text.getvalue()


def test_gaps_are_over_the_reference_and_heuristics_are_those_of_the_first_seed():
    """Costs 11 and 12 over 10 are +10 % and +20 %: mean 15 %, half width 12.7062 * 7.0711 % / sqrt 2 = 63.5 %."""
    runs = [
        {
            "seconds": 3.0,
            "references": {"optimum": 10.0},
            "means": {"rule": 10.5, "trained": 11.0, "trained_sampled": 13},
        },
        {"seconds": 4.0, "references": {"optimum": 10.0}, "means": {"trained": 12.0, "trained_sampled": 13}},
    ]
    text = printed(table_of({"toy": runs}))
    for cell in ("optimum", "rule", "+5.0%", "+15.0% ± 63.5%", "+20.0%", "+30.0% ± 0.0%", "4"):
        assert cell in text


def test_a_single_seed_has_no_interval():
    assert over_seeds([0.01]) == "+1.0%"


@pytest.mark.parametrize("name", PROBLEMS)
def test_every_problem_is_there_and_has_a_reference(name):
    simulator, options = PROBLEMS[name]
    loaded = load_simulator(simulator, options).simulator
    assert loaded.references
    assert "mean_cost" in loaded.metrics_dtype.names


@pytest.mark.parametrize("name", ALGORITHMS)
def test_every_algorithm_is_a_setting(name):
    assert Config(**ALGORITHMS[name]).algorithm == ("ppo" if name == "ppo" else "grpo")
