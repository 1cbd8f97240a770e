"""The mode whatif from the command line to its file, and equivalents of a policy that are known."""

import json

import pytest
from oracles.process_play import service

from longstride.cli import main
from longstride.process.changes.apply import apply_changes
from longstride.process.scenario_file import load_scenario, parse_scenario, scenario_content
from longstride.process.simulator import ProcessSimulator
from longstride.process.whatif.compare import Sampling, Variant, play_variants
from longstride.process.whatif.equivalent import equivalent_arrivals, equivalent_people
from longstride.training.evaluation.compiled import CompiledPlayer

DESK = {
    "schema": "resource-allocation-scenario/1",
    "name": "desk",
    "time_unit": "hours",
    "horizon": {"value": 30.0},
    "arrivals": {"process": "poisson", "rate": 0.7},
    "activities": ["Check", "Decide"],
    "resources": ["clerk 1", "clerk 2", "Ann (boss)"],
    "service": [
        service("Check", "clerk 1", "exponential", mean=2.0),
        service("Check", "clerk 2", "exponential", mean=3.0),
        service("Decide", "Ann (boss)", "constant", mean=0.5),
        service("Decide", "clerk 2", "constant", mean=1.0),
    ],
    "flow": {"seq": [{"task": "Check"}, {"task": "Decide"}]},
    "working_hours": {"clerk 1": [{"days": ["Monday", "Tuesday", "Friday"], "from": "00:00", "to": "24:00"}]},
}
SMALL = [*("--training-episodes", "1", "--num-envs", "1"), *("--actor-hidden-size", "8")]
SMALL += ["--critic-hidden-size", "8", "--num-hidden-layers", "1", "--update-execution", "eager"]
EPISODES = ["--evaluation-episodes", "2", "--simulation-threads", "1", "--no-report"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return a folder with the scenario and a run of each kind of policy."""
    folder = tmp_path_factory.mktemp("desk")
    (folder / "desk.json").write_text(json.dumps(DESK))
    for kind in ("mlp", "pointer"):
        flags = [
            "--scenario",
            str(folder / "desk.json"),
            "--policy-network",
            kind,
            "--run-directory",
            str(folder / kind),
        ]
        assert main(["--mode", "train", *flags, *SMALL, "--no-report"]) == 0
    return folder


def whatif(*flags):
    return main(["--mode", "whatif", *flags, *EPISODES])


def test_a_policy_with_an_output_for_each_pair_plays_what_it_can(folder, capsys):
    changes = ["people +1 clerk", "people -1 clerk; arrivals -10%", "boss off monday"]
    flags = [word for change in changes for word in ("--change", change)]
    assert whatif("--checkpoint", str(folder / "mlp"), *flags, "--cost-per-person", "100") == 0
    content = json.loads((folder / "mlp" / "whatif.json").read_text())
    by_name = {scenario["name"]: scenario for scenario in content["scenarios"]}
    assert list(by_name) == ["as it is", *changes]
    assert [scenario["cost"] for scenario in by_name.values()] == [300.0, 400.0, 200.0, 300.0]
    assert ["trained" in scenario["policies"] for scenario in by_name.values()] == [True, False, True, True]
    assert "has to be trained again" in by_name["people +1 clerk"]["not_reused"]
    written = load_scenario(folder / "mlp" / "whatif" / "1-people-plus-1-clerk.json")
    assert written == apply_changes(load_scenario(folder / "desk.json"), "people +1 clerk").scenario
    out = capsys.readouterr().out
    assert "'clerk 3', with the skills, times and working hours of 'clerk 1'" in out
    # An episode has the same random numbers everywhere: the base scenario as a file is the base scenario.
    again = [str(folder / "desk.json"), "--change", "people +1 clerk"]
    assert whatif("--run-directory", str(folder / "files"), "--scenario", *again) == 0
    other = json.loads((folder / "files" / "whatif.json").read_text())["scenarios"]
    for scenario, name in zip(other, by_name, strict=False):
        assert scenario["per_episode"]["spt"] == by_name[name]["per_episode"]["spt"]


def test_a_policy_that_scores_pairs_plays_with_other_people(folder):
    (folder / "more.json").write_text(json.dumps(scenario_content(changed("people +2 clerk"))))
    flags = ["--checkpoint", str(folder / "pointer"), "--scenario", str(folder / "more.json"), "--policy", "fifo"]
    assert whatif(*flags) == 0
    scenarios = json.loads((folder / "pointer" / "whatif.json").read_text())["scenarios"]
    assert [list(scenario["policies"]) for scenario in scenarios] == [["trained", "fifo"]] * 2
    assert scenarios[1]["name"] == "more"


def changed(text):
    return apply_changes(parse_scenario(DESK, "test"), text).scenario


@pytest.mark.slow
def test_the_equivalent_of_the_heuristic_with_more_people_is_that_number():
    sampling, simulator = Sampling(3, 3), ProcessSimulator(parse_scenario(DESK, "test"))

    def records(text):
        return CompiledPlayer(ProcessSimulator(changed(text)), None, 1).play("fifo", None, 3, 3)[0]

    people = equivalent_people(simulator, "fifo", records("people +2 clerk"), sampling)
    assert (people.what, people.amount) == ("clerk", 2.0)
    assert people.low <= 2.0 <= people.high
    arrivals = equivalent_arrivals(simulator, "fifo", records("arrivals -15%"), sampling)
    assert arrivals.amount == 0.15


def test_a_kernel_of_less_work_plays_more_to_the_end():
    """So many more cases take more steps than an episode of the process as it is can have."""
    variants = [Variant("as it is", parse_scenario(DESK, "test"))]
    variants.append(Variant("more", changed("arrivals +2600%; times -99% everything")))
    played = play_variants(variants, None, ["fifo"], Sampling(1, 3))
    alone = CompiledPlayer(ProcessSimulator(variants[1].scenario), None, 1).play("fifo", None, 1, 3)[0]
    assert played[1].result.records["fifo"] == alone


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ([], "--mode whatif compares scenarios: name changes"),
        (["--change", "people +1 clerk", "--change", "people +1  clerk"], "Two scenarios are called"),
        (["--change", "people +1 clerk", "--policy", "sptt"], "did you mean spt"),
        (["--change", "people +1 clerk", "--cost-per-person", "-1"], "--cost-per-person"),
        (["--change", "people +1 clerk", "--cost-per-person", "nan"], "--cost-per-person"),
        (["--change", "people +1 clerk", "--policy", ","], "--policy names no heuristic"),
        (
            ["--checkpoint", "run", "--event-log", "log.csv", "--change", "people +1 clerk"],
            "There is no checkpoint in run",
        ),
        (["--simulator", "cartpole", "--change", "people +1 clerk"], "SIMULATOR has to be process"),
    ],
)
def test_what_is_wrong_is_said(flags, message, capsys, tmp_path):
    own = [] if "--simulator" in flags else ["--scenario", str(tmp_path / "desk.json")]
    (tmp_path / "desk.json").write_text(json.dumps(DESK))
    assert whatif(*own, *flags, "--run-directory", str(tmp_path / "out")) == 2
    assert message in capsys.readouterr().err


def test_several_scenarios_belong_to_this_mode(capsys, tmp_path):
    assert main(["--mode", "train", "--scenario", "a.json", "b.json", "--run-directory", str(tmp_path)]) == 2
    assert "--scenario takes several only with --mode whatif" in capsys.readouterr().err
