"""The pages about recommendations are true: their examples run, their tables are those of the program."""

import json
import re
import sys
import threading
import time

import pytest

pytest.importorskip("pydantic")

from helpers.documentation import blocks, commands, names, page, rows, section
from helpers.played_states import save_policy, some_policy

pytest.importorskip("fastapi")
pytest.importorskip("prometheus_client")
pytest.importorskip("uvicorn")

import uvicorn

from longstride.cli import main
from longstride.process.load import find_scenario
from longstride.process.recommend.recommender import Recommender
from longstride.process.recommend.service.app import create_app
from longstride.process.recommend.service.guard import guard_of
from longstride.process.recommend.service.limits import Served
from longstride.process.simulator import ProcessSimulator
from longstride.process.snapshots.schema import OpenCase, ProcessState, RestingTask, TaskInWork, WaitingTask

TEXT, REFERENCE = page("how-to/recommend-assignments.md"), page("reference/recommendations.md")


@pytest.fixture(scope="module")
def policy():
    simulator = ProcessSimulator(find_scenario("loan_desk"))
    return simulator, some_policy(simulator)


@pytest.fixture
def elsewhere(policy, tmp_path, monkeypatch):
    """Work as the installed command in a folder with the run and the files of the guide."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["longstride"])
    save_policy(tmp_path / "runs" / "loan_desk", *policy)
    (tmp_path / "state.json").write_text(blocks(TEXT, "json")[0])
    (tmp_path / "open_cases.csv").write_text(blocks(TEXT, "csv")[0])
    return tmp_path


def cells_of(table):
    """Return person, activity and case of the rows of a printed table."""
    lines = [line.split("│") for line in table.splitlines() if line.startswith("│")]
    return {tuple(cell.strip() for cell in line[1:4]) for line in lines}


@pytest.mark.slow
def test_the_commands_of_the_guide(elsewhere, capsys):
    _, state, log, *_ = (words for words in commands(TEXT) if words[0] == "longstride")
    assert main(state[1:]) == 0
    printed, quoted = capsys.readouterr().out, blocks(TEXT, 'text title="Output of a recommendation"')[0]
    assert cells_of(printed) == cells_of(quoted)
    for line in (1, 2, 3, -1):  # the head of the table, and what spt does, are the same under every policy
        assert quoted.splitlines()[line] in printed
    assert main(log[1:]) == 0
    printed = capsys.readouterr().out
    assert "open_cases.csv at 2026-11-23T10:15:00: waiting tasks 2, in work 2, at rest 0; people on shift 3" in printed
    assert "1 case: the next task is inferred from the scenario's flow" in printed


def test_the_programs_of_the_guide(elsewhere, policy, capsys):
    by_http, by_python = blocks(TEXT, "python")
    exec(by_python, {})
    recommended = eval(capsys.readouterr().out)
    about = {"scenario": "x", "policy": "mlp", "iteration": 1}
    app = create_app(Served(Recommender(*policy), about), guard_of("localhost", None))
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="warning", lifespan="off"))
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        while not server.started:
            time.sleep(0.01)
        port = server.servers[0].sockets[0].getsockname()[1]
        exec(by_http.replace(":8080", f":{port}"), {})
    finally:
        server.should_exit = True
        thread.join()
    assert capsys.readouterr().out == "{person} should do {activity} of case {case}.\n".format(**recommended)


def test_the_tables_of_the_reference(elsewhere, capsys):
    state, task = (rows(part) for part in re.split(r"\n\n(?=\| key of a task)", section(REFERENCE, "State")))
    assert [names(cells[:1])[0] for cells in state] == list(ProcessState.model_fields)
    parts = {"waiting": WaitingTask, "in_work": TaskInWork, "cases": OpenCase, "resting": RestingTask}
    for key, kind in parts.items():
        places = {f"`{key}`", "all", "" if key == "cases" else "all but `cases`"}
        listed = {names(cells[:1])[0] for cells in task if places & set(cells[1].split(", "))}
        assert listed == set(kind.model_fields), key
    assert main(["--mode", "recommend", "--run-directory", "runs/loan_desk", "--state", "state.json", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    whole, each = (rows(part) for part in re.split(r"\n\n(?=\| key of an assignment)", section(REFERENCE, "Answer")))
    assert [names(cells[:1])[0] for cells in whole] == list(answer)
    assert [name for cells in each for name in names(cells[:1])] == list(answer["assignments"][0])
