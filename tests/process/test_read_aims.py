"""Due dates, costs and targets in the words of settings, and in files."""

import hashlib
import json
import math
from pathlib import Path

import numpy as np
import pytest
from oracles.process_play import office, rework, scenario, service

from longstride import Hyperparameters, train
from longstride.api.checkpoint_simulator import simulator_of
from longstride.cli import main
from longstride.config import Config
from longstride.errors import UserError
from longstride.process.changes.apply import apply_changes
from longstride.process.event_logs.event_log import read_event_log
from longstride.process.event_logs.log_columns import LogColumns
from longstride.process.event_logs.reading.options import LogReading
from longstride.process.kernel.aims.arrays import pair_prices
from longstride.process.load import from_source, make_process
from longstride.process.promise import DualAscent, aims_sentences, promise_sentences, share_within
from longstride.process.read_aims import AimSettings, require_classes, with_aims
from longstride.process.scenario.aims import Costs, Due, Target
from longstride.process.scenario_file import parse_scenario, scenario_content
from longstride.process.simulator import ProcessSimulator
from longstride.settings import load_settings
from longstride.simulators.loading import from_object
from longstride.training.assembly.run_settings import load_configured


def test_words_are_times_of_the_scenario():
    made = with_aims(office(), AimSettings(due="2 days after arrival", cost="40", target="95% within 1.5 weeks"))
    assert made.aims.due == Due(after=2 * 1440.0)
    assert made.aims.costs == Costs(everyone=40.0)
    assert made.aims.target == Target(share=0.95, within=1.5 * 7 * 1440.0)
    assert with_aims(rework(), AimSettings(due="7")).aims.due == Due(after=7.0)
    assert with_aims(office(), AimSettings()) is office()


UNITS = "units are minutes, hours, days, weeks."


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"due": "5"}, f"DUE is '5'; expected '5 days' or 'column NAME'; {UNITS}"),
        ({"due": "0 days"}, f"DUE is '0 days'; expected '5 days' or 'column NAME'; {UNITS}"),
        (
            {"due": "column X"},
            "DUE is 'column X', but there is no EVENT_LOG with columns; name one, or write '5 days'.",
        ),
        ({"target": "95%"}, "TARGET is '95%'; expected a share and a time, such as '95% within 10 days'."),
        ({"target": "95% within 3"}, f"TARGET is '3'; expected a time such as '10 days'; {UNITS}"),
        ({"cost": "-1"}, "COST is -1; expected an amount, 0 or more, or a CSV file."),
        (
            {"main_metric": "cost_per_case"},
            "test: The main metric is cost_per_case, but the process has no costs; --cost 40 pays each person 40 an "
            "hour.",
        ),
        (
            {"main_metric": "cost"},
            "test: The main metric 'cost' is none that this process minimises; there are mean_cycle_time, "
            "median_cycle_time, p90_cycle_time, p95_cycle_time.",
        ),
        (
            {"cost": "column rate"},
            "COST is 'column rate', but there is no EVENT_LOG with columns; name one, or write an amount.",
        ),
    ],
)
def test_other_words_are_refused_in_a_sentence(given, sentence):
    with pytest.raises(UserError) as error:
        with_aims(office(), AimSettings(**given))
    assert str(error.value) == sentence


@pytest.mark.parametrize(
    ("objective", "sentence"),
    [
        ({"costs": 1.0}, "The objective weighs 'costs', which no process has; did you mean cost?"),
        ({"cost": 0.0}, "The weight of cost in the objective is 0; expected a number above 0."),
        ({"cost": 1.0}, "but the process has no costs; --cost 40 pays each person 40 an hour."),
        ({"late": 1.0}, "but the process has no due dates; --due '5 days' gives each case five days."),
    ],
)
def test_objectives_that_cannot_be_are_refused(objective, sentence):
    with pytest.raises(UserError, match="test: ") as error:
        parse_scenario({**scenario_content(office()), "aims": {"objective": objective}}, "test")
    assert sentence in str(error.value)


def test_classes_that_auto_does_not_find_are_named_by_their_column():
    for due, weights, named in (("gold=1 day, other=2 days", "", "DUE"), ("1 day", "gold=3", "CLASS_WEIGHTS")):
        with pytest.raises(UserError, match=f"{named} names a class, but CLASSES = 'auto' has found no column"):
            require_classes(office(), "auto", AimSettings(due=due, class_weights=weights))
    require_classes(office(), "auto", AimSettings(due="1 day"))
    require_classes(office(), "", AimSettings(due="gold=1 day"))


def test_due_dates_of_replayed_cases_without_one_are_the_median_of_the_others(tmp_path):
    made, file = replayed_log(tmp_path, [5, None, 20, 7]), tmp_path / "log.csv"
    columns = LogColumns(read_event_log(file), file, {}, LogReading())
    promised = AimSettings(due="column promised")
    assert with_aims(made, promised, columns).aims.due == Due(each=[300.0, 420.0, 1200.0, 420.0])
    assert columns.notes == [
        "1 of 4 cases has no due date in 'promised': these get the median allowance of the others."
    ]
    weekly = with_aims(office(), promised, columns).aims.due
    assert weekly is not None
    assert weekly.quantiles == pytest.approx(list(np.quantile([300.0, 1200.0, 420.0], np.linspace(0, 1, 41))))


def replayed_log(folder, allowances):
    """Write log.csv, a case each hour with an allowance in hours, and return a scenario that replays its arrivals."""
    rows = ["case_id,activity,resource,start_time,end_time,promised"]
    for case, hours in enumerate(allowances):
        begin = np.datetime64("2024-03-04T08:00") + np.timedelta64(case, "h")
        promised = "" if hours is None else begin + np.timedelta64(hours, "h")
        rows.append(f"c{case},A,X,{begin},{begin + np.timedelta64(10, 'm')},{promised}")
    (folder / "log.csv").write_text("\n".join(rows) + "\n")
    arrivals = {"process": "replay", "times": [60.0 * case for case in range(len(allowances))]}
    return parse_scenario({**scenario_content(office()), "arrivals": arrivals}, "test")


def test_a_time_without_end_is_refused():
    with pytest.raises(UserError, match="DUE is '9999"):
        with_aims(office(), AimSettings(due=f"{'9' * 400} days"))


@pytest.mark.parametrize("arrivals", ["weekly", "replay"])
def test_due_dates_come_from_a_column_of_the_log(tmp_path, arrivals):
    rng = np.random.default_rng(1)
    rows, hours = ["case_id,activity,resource,start_time,end_time,promised"], []
    for case in range(40):
        start, allowance = 2 * case, int(rng.integers(5, 90))
        hours.append(allowance)
        day, hour = divmod(start, 24)
        begin = f"2024-03-{4 + day:02d}T{hour:02d}:00:00"
        promised = np.datetime64(begin) + np.timedelta64(allowance, "h")
        for activity in ("A", "B"):
            end = np.datetime64(begin) + np.timedelta64(1 + int(rng.integers(30)), "m")
            rows.append(f"c{case},{activity},{'XY'[case % 2]},{begin},{end},{promised}")
            begin = str(end)
    file = tmp_path / "log.csv"
    file.write_text("\n".join(rows) + "\n")
    made = make_process(event_log=str(file), due="column promised", log_arrivals=arrivals).scenario
    if arrivals == "replay":
        assert made.aims.due == Due(each=[float(h) for h in hours])
    else:
        expected = np.quantile(hours, np.linspace(0.0, 1.0, 41))
        assert made.aims.due is not None
        assert made.aims.due.quantiles == pytest.approx(list(expected))
    assert "edd" in ProcessSimulator(made).heuristics


def priced(**aims):
    people = [service("A", "quick", "constant", mean=1.0), service("A", "cheap", "constant", mean=2.0)]
    return scenario(time_unit="abstract", resources=["quick", "cheap"], service=people, aims=aims)


def test_a_price_is_a_time_that_waiting_costs_as_much():
    costs = {"everyone": 1.0, "per_hour": {"quick": 8.0}, "per_task": {"A": 0.5}}
    p = ProcessSimulator(priced(objective={"cost": 3.0, "cycle_time": 2.0}, costs=costs)).parameters
    assert p.pair_price.tolist() == [1.0 + 3.0 * 8.5 / 2.0, 2.0 + 3.0 * 2.5 / 2.0]
    for same in (
        {"costs": costs},
        {
            "costs": {**costs, "per_task": {}, "paid": "on duty"},
            "objective": {"cost": 1.0, "late": 1.0},
            "due": {"after": 3.0},
        },
    ):
        p = ProcessSimulator(priced(**same)).parameters
        assert p.pair_price.tolist() == [1.0, 2.0]


def test_aims_are_kept_by_a_checkpoints_source_and_in_changed_scenarios():
    made = from_object(make_process(due="2 days", cost="40")).with_objective("cost=1 tardiness=20")
    assert made.simulator.main_metric == "objective"
    named = load_configured(Config(due="2 days", cost="40", objective="cost=1 tardiness=20"))
    assert named.simulator.scenario == made.simulator.scenario and named.source == made.source
    again = from_source(made.source, {})
    assert again.scenario == made.simulator.scenario
    assert again.parameters.weights.tolist() == pytest.approx([0, 20 / 60, 0, 1, 0, 0, 0, 0])
    more = priced(objective={"cost": 1.0}, costs={"per_hour": {"quick": 8.0, "cheap": 1.0}})
    changed = apply_changes(more, "people +1 cheap").scenario
    assert changed.aims.costs is not None
    assert changed.aims.costs.per_hour == {"quick": 8.0, "cheap": 1.0, changed.resources[-1]: 1.0}
    fewer = apply_changes(more, "people -1 cheap").scenario
    assert fewer.aims.costs is not None
    assert fewer.aims.costs.per_hour == {"quick": 8.0}


def test_a_function_that_returns_a_process_takes_an_objective(tmp_path):
    file = tmp_path / "desk.py"
    file.write_text(
        "from longstride.process.load import make_process\n\n\ndef desk():\n    return make_process(cost='40')\n"
    )
    loaded = load_configured(Config(simulator=f"{file}:desk", objective="cost=1"))
    assert loaded.simulator.scenario.aims.objective == {"cost": 1.0}
    assert loaded.source == load_configured(Config(cost="40", objective="cost=1")).source


def test_aims_of_nobody_change_no_digest():
    assert (
        ProcessSimulator(office()).description()["scenario_sha256"]
        != ProcessSimulator(with_aims(office(), AimSettings(due="1 day"))).description()["scenario_sha256"]
    )
    later = {"at_once", "case_values", "queue_discipline_between_activities"}
    content = office().model_dump_json(exclude={"aims", "begins", "absences", "holidays", "logged", *later})
    assert ProcessSimulator(office()).description()["scenario_sha256"] == hashlib.sha256(content.encode()).hexdigest()


def test_the_weight_of_a_promise_rises_while_it_is_missed_and_falls_while_it_is_kept():
    simulator, ascent = ProcessSimulator(with_aims(rework(), AimSettings(target="90% within 5"))), DualAscent()
    missed = [{"return": -4.0, "share_beyond_target": share} for share in (0.2, 0.4)]
    assert ascent.learn(simulator, missed)["target_weight"] == pytest.approx(0.5 * 4.0 / 0.1)  # at most one step
    assert simulator.parameters.weights[-1] == pytest.approx(20.0)
    again, other = ProcessSimulator(simulator.scenario), DualAscent()
    other.restore(again, ascent.state(simulator))
    kept = [{"return": -9.0, "share_beyond_target": 0.05}]
    figures = [each.learn(of, kept)["target_weight"] for each, of in ((ascent, simulator), (other, again))]
    assert figures == pytest.approx([20.0 - 0.5 * 4.0 / 0.1 * 0.5] * 2)
    for _ in range(9):
        last = ascent.learn(simulator, kept)["target_weight"]
    assert last == 0.0


def test_a_resumed_run_continues_with_the_weight_of_its_promise(tmp_path):
    file = tmp_path / "rework.json"
    file.write_text(json.dumps(scenario_content(rework())))
    settings = {"scenario": str(file), "target": "90% within 5", "num_envs": 2, "actor_hidden_size": 8}
    records = {}
    for name, parts in (("whole", (3,)), ("resumed", (1, 3))):
        for number, episodes in enumerate(parts):
            config = Hyperparameters(training_episodes=episodes, policy_prior="fifo", **settings)
            train("process", config, run_directory=tmp_path / name, resume=number > 0, quiet=True)
        lines = (tmp_path / name / "metrics.jsonl").read_text().splitlines()
        records[name] = [(r["trajectory_sha256"], r["target_weight"], r["return"]) for r in map(json.loads, lines)]
    assert records["whole"] == records["resumed"]
    weights = [weight for _, weight, _ in records["whole"]]
    assert 0.0 < weights[0] < weights[1]


def test_sentences_name_the_objective_and_the_promise():
    made = with_aims(office(), AimSettings(due="1 day", cost="40", target="90% within 2 days"))
    several = parse_scenario(
        {
            **scenario_content(made),
            "aims": {**scenario_content(made)["aims"], "objective": {"cost": 1.0, "tardiness": 20.0}},
        },
        "test",
    )
    assert aims_sentences(several) == [
        "Objective, for each case: 1 for each unit of cost, 20 for each hour of tardiness."
    ]
    assert aims_sentences(office()) == []
    records = {name: [{"share_beyond_target": share} for share in shares] for name, shares in {
        "trained": (0.01, 0.02, 0.015), "fifo": (0.3, 0.31, 0.32), "spt": (0.05, 0.15, 0.1)}.items()}  # fmt: skip
    (sentence,) = promise_sentences(made, records)
    assert sentence.startswith(
        "Promise of 90 % of the cases within 2 d: trained keeps it with 98.5 % (95 % interval 97.3 to"
    )
    assert "fifo misses it with 69.0 %" in sentence
    assert "spt is not shown to do either with 90.0 %" in sentence
    assert math.isfinite(pair_prices(np.ones(1), np.zeros(1, int), np.zeros(1, int), {"weights": np.zeros(8)})[0])


@pytest.mark.parametrize(("flag", "value"), [("--cost", "40"), ("--objective", "cost=1"), ("--due", "2 days")])
def test_a_run_keeps_its_aims(capsys, flag, value):
    assert main(["--mode", "whatif", "--checkpoint", "nowhere", flag, value, "--change", "people +1 day"]) == 2
    sentence = f"{flag}: a checkpoint or a scenario file keeps its own; leave this out."
    assert sentence in " ".join(capsys.readouterr().err.split())
    settings = load_settings(None, {flag[2:]: value})
    with pytest.raises(UserError, match=f"{flag}: the checkpoint's simulator keeps its own;"):
        simulator_of(settings, {"source": {"simulator": "process"}}, Path("run"))


@pytest.mark.parametrize(
    ("flag", "value"), [("--log-arrivals", "replay"), ("--time-zone", "UTC"), ("--policy-prior", "spt")]
)
def test_a_flag_about_a_log_is_refused_where_none_is_read(capsys, flag, value):
    assert main(["--mode", "evaluate", "--checkpoint", "nowhere", flag, value]) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert f"{flag}: the checkpoint's simulator was made before and is not made again; leave this out" in said


def test_a_share_and_its_interval_are_between_0_and_1():
    mean, low, high = share_within([{"share_beyond_target": beyond} for beyond in (0.0, 0.0, 0.1)])
    assert (mean, high) == (pytest.approx(1.0 - 0.1 / 3), 1.0)
    assert 0.0 < low < mean
    assert share_within([{"share_beyond_target": beyond} for beyond in (1.0, 0.8)])[1] == 0.0
    assert share_within([{"share_beyond_target": 0.5}, {}]) is None
