"""The sentence that compares the trained policy with the best heuristic: its verdict is that of the paired interval."""

import pytest
from oracles.toy_simulators import Shop

pytest.importorskip("pydantic")
pytest.importorskip("scipy")

from core.commands.evaluate import comparison_sentence, evaluation_table
from core.training.evaluation.evaluate import Evaluation


class Costs(Shop):
    """A shop that is judged by a cost."""

    main_metric, main_metric_lower_is_better = "mean_cost", True


def sentence(simulator, trained, **heuristics):
    metric = simulator.main_metric
    values = {"trained": trained, **heuristics}
    records = {name: [{} if value is None else {metric: value} for value in of] for name, of in values.items()}
    return comparison_sentence(Evaluation(len(trained), records), simulator)


LOW, HIGH, MIXED = [7.0, 8.0, 9.0, 8.5], [12.0, 13.0, 14.0, 13.5], [7.0, 8.5, 9.0, 8.0]


@pytest.mark.parametrize(
    ("simulator", "trained", "heuristic", "verdict"),
    [
        (Costs, HIGH, LOW, "Worse than"),
        (Costs, LOW, HIGH, "Better than"),
        (Costs, LOW, MIXED, "Not shown to differ from"),
        (Shop, HIGH, LOW, "Better than"),
        (Shop, LOW, HIGH, "Worse than"),
        (Shop, LOW, MIXED, "Not shown to differ from"),
    ],
)
def test_the_verdict_is_that_of_the_paired_interval(simulator, trained, heuristic, verdict):
    assert sentence(simulator(), trained, order_up=heuristic).startswith(f"{verdict} the best heuristic, order_up: ")


def test_the_sentence_by_hand():
    """Differences of 5 in each episode and of 4.5 once: 4.875 of 8.125, and Student's t of 0.25 over 4 episodes."""
    half = 3.182446 * 0.25 / 2
    low, high = (100 * (4.875 + sign * half) / 8.125 for sign in (-1, 1))
    assert sentence(Costs(), [12.0, 13.0, 14.0, 13.0], order_up=LOW, order_nothing=HIGH) == (
        "Worse than the best heuristic, order_up: 13 against 8.125 mean cost (+60 %, 95 % interval "
        f"{low:+.3g} to {high:+.3g} %, paired)."
    )


def test_a_heuristic_of_zero_has_no_percent():
    text = sentence(Shop(), [1.0, 2.0, 3.0], order_up=[0.0, 0.0, 0.0])
    assert text.startswith(
        "Not shown to differ from the best heuristic, order_up: 2 against 0 cash (+2, 95 % interval -"
    )
    assert " %)" not in text


def test_episodes_that_lack_the_metric_are_left_out_and_one_is_too_few():
    assert "8 against 13" in sentence(Shop(), [7.0, None, 9.0], order_up=[12.0, 99.0, 14.0])
    for trained in ([7.0, None], [None, None]):
        assert sentence(Shop(), trained, order_up=[12.0, 13.0]) == "Too few episodes to compare with order_up."
    assert sentence(Shop(), [7.0, 8.0]) == "No heuristic to compare with."


def test_references_have_rows_and_a_gap():
    """7 is 40 % above 5, and a reference of 10 is twice 5."""
    records = {"order_up": [{"mean_cost": 6.0}, {"mean_cost": 8.0}]}
    result = Evaluation(2, records, references={"optimum": 5.0, "rule": 10.0})
    table = evaluation_table(result, Costs())
    columns = {column.header: list(column.cells) for column in table.columns}
    assert columns["policy"] == ["order_up", "optimum", "rule"]
    assert columns["mean cost"][1:] == ["5.000", "10.00"]
    assert columns["gap to optimum"] == ["+40 %", "+0 %", "+100 %"]
    assert result.as_json()["references"] == {"optimum": 5.0, "rule": 10.0}
