"""Batches that a policy begins, from the setting to what commands say: train, recommend, whatif, front."""

import json

import pytest
from helpers.fresh_here import run_here
from oracles.process_play import service
from oracles.slow_batches import NEEDS

import longstride
from longstride.cli import main
from longstride.process.front.source import load_process_run
from longstride.process.scenario_file import load_scenario

ACTIVITIES = ["Cross", "Check"]
RIVER = {
    "schema": "resource-allocation-scenario/1",
    "name": "river",
    "time_unit": "hours",
    "horizon": {"value": 15.0},
    "arrivals": {"process": "poisson", "rate": 0.9},
    "activities": ACTIVITIES,
    "resources": ["ferry", "clerk"],
    "service": [service(ACTIVITIES[a], person, "constant", mean=mean) for (a, person), mean in NEEDS.items()],
    "flow": {"seq": [{"task": "Cross"}, {"task": "Check"}]},
    "batches": [{"activity": "Cross", "size": 4, "longest": 3.0}],
}
SMALL = [*("--training-episodes", "1", "--num-envs", "1"), *("--actor-hidden-size", "8")]
SMALL += ["--critic-hidden-size", "8", "--num-hidden-layers", "1", "--update-execution", "eager", "--no-report"]
EPISODES = ["--evaluation-episodes", "2", "--simulation-threads", "1"]
CHOICE = ["--batch-start", "policy"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return a folder with the scenario, whose batches begin by themselves, and runs whose policies begin them."""
    folder = tmp_path_factory.mktemp("river")
    (folder / "river.json").write_text(json.dumps(RIVER))
    (folder / "plain.json").write_text(json.dumps({**RIVER, "batches": []}))
    for kind in ("mlp", "pointer"):
        flags = ["--scenario", str(folder / "river.json"), "--policy-network", kind, *CHOICE]
        assert main(["--mode", "train", *flags, "--run-directory", str(folder / kind), *SMALL]) == 0
    return folder


def test_a_run_keeps_who_begins_its_batches(folder, capsys):
    assert load_scenario(folder / "mlp" / "scenario.json").batches[0].start == "policy"
    run = load_process_run(str(folder / "mlp"), lambda line: None)
    assert run.simulator.scenario.policy_starts_batches
    assert main(["--mode", "evaluate", "--checkpoint", str(folder / "mlp"), *EPISODES]) == 0
    shown = json.loads((folder / "mlp" / "evaluation.json").read_text())["policies"]
    assert {"trained", "fifo", "full_batches", "ready_batches"} <= shown.keys()
    capsys.readouterr()


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        (["train", "--scenario", "plain.json", *CHOICE], "BATCH_START is 'policy', but river has no batches; leave it"),
        (["train", "--scenario", "river.json", "--batch-start", "x"], "should be '', 'ready' or 'policy'"),
        (["evaluate", "--checkpoint", "mlp", *CHOICE], "--batch-start: the checkpoint's simulator keeps its own;"),
        (
            ["whatif", "--scenario", "river.json", *CHOICE, "--change", "people +1 clerk"],
            "--batch-start: a checkpoint or a scenario file keeps its own; leave this out.",
        ),
    ],
)
def test_what_is_refused(folder, monkeypatch, capsys, flags, sentence):
    monkeypatch.chdir(folder)
    assert main(["--mode", *flags]) == 2
    error = capsys.readouterr().err
    assert sentence in error and error.count("\n") == 1


@pytest.mark.parametrize("kind", ["mlp", "pointer"])
def test_changed_processes_are_compared_with_the_same_choice(folder, capsys, kind):
    flags = ["--change", "people +1 clerk", "--change", "arrivals +20%", *EPISODES, "--no-report"]
    assert main(["--mode", "whatif", "--checkpoint", str(folder / kind), *flags]) == 0
    content = json.loads((folder / kind / "whatif.json").read_text())
    played = {scenario["name"]: scenario["policies"] for scenario in content["scenarios"]}
    assert ["trained" in of for of in played.values()] == [True, kind == "pointer", True]
    assert all({"fifo", "full_batches", "ready_batches"} <= of.keys() for of in played.values())
    assert load_scenario(folder / kind / "whatif" / "1-people-plus-1-clerk.json").policy_starts_batches
    capsys.readouterr()


def test_a_front_of_time_and_cost_has_the_rules_of_batches(folder, capsys, monkeypatch):
    run_here(monkeypatch)
    flags = [*CHOICE, "--cost", "5", "--weights", "1", *EPISODES, *SMALL[:-1], "--run-directory", str(folder / "front")]
    assert main(["front", str(folder / "river.json"), *flags]) == 0
    points = {point["name"] for point in json.loads((folder / "front" / "front.json").read_text())["points"]}
    assert {"cost=1 cycle_time=1", "fifo", "full_batches", "ready_batches"} <= points
    capsys.readouterr()


@pytest.mark.parametrize("kind", ["mlp", "pointer"])
def test_a_recommendation_names_the_cases_that_begin_together(folder, kind):
    recommender = longstride.load_recommender(folder / kind)
    tasks = [{"case": str(i), "activity": "Cross", "since": float(i)} for i in range(6)]
    answer = recommender.recommend({"time": 7.0, "waiting": tasks, "on_shift": ["ferry"]})
    first = answer["assignments"][0]
    assert (first["case"], first["together"]) == ("0", ["1", "2", "3"])
    assert first["reason"].startswith("4 of at most 4 tasks begin together. It has waited 7.00 h, the first of 2;")
    assert set(answer["heuristics"]) == {"fifo", "spt", "full_batches", "ready_batches"}
    few = recommender.recommend({"time": 5.5, "waiting": tasks[4:], "on_shift": ["ferry"]})
    assert (few["assignments"][0]["case"], few["assignments"][0]["together"]) == ("4", ["5"])
    begins = {name: choice is not None for name, choice in few["heuristics"].items()}
    assert begins == {"fifo": True, "spt": True, "full_batches": False, "ready_batches": False}
    late = recommender.recommend({"time": 7.0, "waiting": tasks[4:], "on_shift": ["ferry"]})
    assert late["heuristics"]["ready_batches"] is not None, "the first has waited for three hours"
