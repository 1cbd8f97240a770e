"""Verdicts of the paired interval, in the sentence, the table, evaluation.json and in plain words."""

import io
import json

import numpy as np
import pytest
from oracles.toy_simulators import Shop
from rich.console import Console

pytest.importorskip("pydantic")
pytest.importorskip("scipy")

from longstride.errors import UserError
from longstride.simulators.validate import require_complete
from longstride.training.evaluation.comparison import as_json, compare, comparison_sentence, from_json, verdicts
from longstride.training.evaluation.evaluate import Evaluation
from longstride.training.evaluation.plain_words import plain_words
from longstride.training.evaluation.table import evaluation_cells, evaluation_table, evaluation_tables


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
        (Costs, LOW, MIXED, "No difference shown to"),
        (Shop, HIGH, LOW, "Better than"),
        (Shop, LOW, HIGH, "Worse than"),
        (Shop, LOW, MIXED, "No difference shown to"),
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
        f"{low:+.3g} to {high:+.3g} %; +4.88, {4.875 - half:+.3g} to {4.875 + half:+.3g}; paired)."
    )


class KnownCosts(Costs):
    optimal = "order_up"


class Known(Shop):
    optimal = "order_up"


@pytest.mark.parametrize(
    ("simulator", "trained", "optimum", "begin"),
    [
        (KnownCosts, HIGH, LOW, "62 % above the optimum, order_up: 13.12 against 8.125 mean cost ("),
        (Known, LOW, HIGH, "38 % below the optimum, order_up: 8.125 against 13.12 cash ("),
        (Known, [-4.0, -3.0, -2.0], [1.0, 2.0, 3.0], "5.0 below the optimum, order_up: -3 against 2 cash ("),
        (KnownCosts, LOW, MIXED, "No difference shown to the optimum, order_up: "),
        (KnownCosts, LOW, HIGH, "No difference shown to the optimum, order_up: "),
    ],
)
def test_the_distance_to_a_known_optimum_is_said_and_it_is_no_heuristic_to_beat(simulator, trained, optimum, begin):
    known = simulator()
    assert sentence(known, trained, order_up=optimum).startswith(begin)
    assert "heuristic" not in sentence(known, trained, order_up=optimum)
    both = sentence(known, trained, order_up=optimum, order_nothing=optimum)
    assert " the best heuristic, order_nothing: " in both


def test_the_optimum_is_one_of_the_heuristics():
    wrong = Known()
    wrong.optimal = "order_upp"
    with pytest.raises(UserError, match="names 'order_upp', which is not a heuristic; did you mean order_up"):
        require_complete(wrong)


def test_large_differences_are_written_out():
    said = sentence(Costs(), [100.0, 120.0, 140.0], order_up=[1.0, 1.0, 1.0])
    assert "(+11,900 %, 95 % interval +6,932 to +16,868 %; +119, +69.3 to +169; paired)" in said


def test_a_heuristic_of_zero_has_no_percent():
    text = sentence(Shop(), [1.0, 2.0, 3.0], order_up=[0.0, 0.0, 0.0])
    assert text.startswith("No difference shown to the best heuristic, order_up: 2 against 0 cash (+2, 95 % interval -")
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
    columns = {str(column.header): [str(cell) for cell in column.cells] for column in table.columns}
    assert columns["policy"] == ["order_up", "optimum", "rule"]
    assert columns["mean cost"][1:] == ["5.000", "10.00"]
    assert columns["gap to optimum"] == ["+40 %", "+0 %", "+100 %"]
    assert "against order_up" not in columns
    assert result.as_json()["references"] == {"optimum": 5.0, "rule": 10.0}


class Clinic(Costs):
    """A shop whose cost is a time, with a share for each of two people."""

    main_metric, metrics_dtype = "wait", None
    metric_units = {"wait": "minutes", "use": "share", "patients": "patients"}  # noqa: RUF012
    metric_labels = {"use": ("Ann", "Bob")}  # noqa: RUF012


def clinic():
    waits = {"trained": [90, 80, 100, 90], "order_up": [180, 170, 190, 180], "order_nothing": [300, 310, 290, 300]}
    uses = {"trained": [0.5, 0.8], "order_up": [0.9, 0.79], "order_nothing": [0.9, 0.79]}
    patients = {"trained": [10, 11, 12, 13], "order_up": [10, 12, 11, 13], "order_nothing": [9, 9, 9, 9]}
    records = {
        name: [{"wait": float(w), "patients": n, "use": uses[name]} for w, n in zip(of, patients[name], strict=True)]
        for name, of in waits.items()
    }
    return Evaluation(4, records, seed=3)


def test_a_time_has_the_unit_of_its_size_and_a_difference_is_in_units_and_per_cent():
    """90 minutes of 180 less in each episode: no spread; above 120 minutes a time is shown in hours."""
    text = comparison_sentence(clinic(), Clinic())
    assert text == (
        "Better than the best heuristic, order_up: 1.5 h against 3 h wait "
        "(-50 %, 95 % interval -50 to -50 %; -1.5 h, -1.5 to -1.5 h; paired)."
    )


def test_small_differences_have_no_exponent():
    records = {"a": [{"wait": 2880.0}, {"wait": 2880.2}], "b": [{"wait": 2880.1}, {"wait": 2880.0}]}
    text = compare(Evaluation(2, records), Clinic(), "a", "b", "wait").long
    assert "e-" not in text
    assert "; +3 s, -111 to +117 s; paired" in text


def test_the_table_has_units_verdicts_and_a_bold_best():
    cells = evaluation_cells(clinic(), Clinic())
    assert cells.headers == ["wait, h", "against order_up", "patients"]
    rows = {row.name: row for row in cells.rows}
    assert {name: row.best for name, row in rows.items()} == {
        "trained": True,
        "order_up": False,
        "order_nothing": False,
    }
    assert rows["trained"].cells[0].startswith("1.500 ± ") and rows["trained"].cells[1] == "better: -50 ± 0.0 %"
    assert rows["order_nothing"].cells[1].startswith("worse: +66.7 ± ") and rows["order_up"].cells[1] == "-"
    styles = {str(column.header): column._cells[0].style for column in evaluation_table(clinic(), Clinic()).columns}
    assert styles == {**dict.fromkeys(["policy", *cells.headers], "bold"), "against order_up": "bold green"}


def test_a_metric_that_no_episode_has_keeps_its_column_and_unit():
    class Late(Clinic):
        metrics_dtype = np.dtype([("wait", np.float64), ("overtime", np.float64), ("by_room", np.float64, (2,))])
        metric_units = {"wait": "minutes", "overtime": "minutes"}  # noqa: RUF012

    cells = evaluation_cells(clinic(), Late())
    assert cells.headers == ["wait, h", "against order_up", "patients", "overtime, min"]
    assert {row.cells[3] for row in cells.rows} == {"-"}


def test_a_unit_that_the_name_has_stands_once():
    class Orders(Shop):
        main_metric, metric_units = "open_orders", {"open_orders": "orders"}

    assert sentence(Orders(), HIGH, order_up=LOW).startswith(
        "Better than the best heuristic, order_up: 13.12 against 8.125 open orders ("
    )

    class Paid(Shop):
        main_metric = "return"

    assert "order_up: 13.12 against 8.125 return (" in sentence(Paid(), HIGH, order_up=LOW)


@pytest.mark.parametrize(("width", "headers"), [(200, [3]), (60, [2, 1]), (40, [1, 1, 1]), (10, [1, 1, 1])])
def test_what_a_terminal_has_no_room_for_is_a_table_of_its_own(width, headers):
    """Nothing is cut but where one column alone is too wide."""
    tables = evaluation_tables(clinic(), Clinic(), width)
    assert [len(table.columns) - 1 for table in tables] == headers
    names = [str(column.header) for table in tables for column in table.columns]
    assert [name for name in names if name != "policy"] == evaluation_cells(clinic(), Clinic()).headers
    if width >= 40:
        text = io.StringIO()
        console = Console(file=text, width=width)
        for table in tables:
            console.print(table)
        assert "…" not in text.getvalue()


def test_plain_words_name_only_differences_that_are_shown():
    assert plain_words(clinic(), Clinic()) == [
        "Wait: 90.0 min, 90.0 min (50 %) less than under order_up.",
        "Patients: 11.5 patients; no difference to order_up is shown.",
        "Use changes most: less for Ann 90 → 50 %.",
    ]
    assert plain_words(Evaluation(2, {"order_up": [{"wait": 1.0}, {"wait": 2.0}]}), Clinic()) == []


def test_what_shows_no_difference_shares_a_line_and_much_work_without_a_gain_is_a_warning():
    class Ward(Clinic):
        metrics_dtype = np.dtype([*((n, np.float64) for n in ("wait", "noise", "heat")), ("use", np.float64, (1,))])
        metric_labels = {"use": ("Ann",)}  # noqa: RUF012

    def records(ends, use):
        return [{"wait": w, "noise": w, "heat": w, "use": [use]} for w in ends]

    result = Evaluation(2, {"trained": records((1.0, 2.0), 0.58), "order_up": records((2.0, 1.0), 0.02)})
    assert plain_words(result, Ward()) == [
        "No difference to order_up is shown in wait, noise, heat.",
        "Use changes most: more for Ann 2 → 58 %.",
        "Warning: Ann 2 → 58 % without a shown gain.",
    ]


def test_evaluation_json_holds_units_and_verdicts_and_is_read_back():
    simulator, result = Clinic(), clinic()
    content = json.loads(json.dumps(as_json(result, simulator)))
    assert content["units"] == Clinic.metric_units and content["best_heuristic"] == "order_up"
    verdict = content["verdicts"]["trained"]
    assert (verdict["verdict"], verdict["difference"], verdict["difference_percent"]) == ("better", -90.0, -50.0)
    assert from_json(content) == result
    assert verdicts(from_json(content), simulator) == verdicts(result, simulator)
    assert from_json({"episodes": 2, "policies": {}}) is None


@pytest.mark.parametrize("noise", [0.0, 1e-12])
def test_the_same_episodes_show_no_difference_at_all(noise):
    records = {"a": [{"wait": 50.0 + noise}, {"wait": 70.0 + noise}], "b": [{"wait": 50.0}, {"wait": 70.0}]}
    verdict = compare(Evaluation(2, records), Clinic(), "a", "b", "wait")
    assert (verdict.word, verdict.short) == ("no difference shown", "no difference shown")
    assert verdict.long == "no difference in any episode; paired"
