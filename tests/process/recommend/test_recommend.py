"""--mode recommend on the command line and from Python: tables, JSON, logs, and what is refused."""

import hashlib
import json
import sys
from collections import Counter

import pytest

pytest.importorskip("pydantic")

from helpers.played_states import save_policy, some_policy
from oracles.process_play import office

import longstride
from longstride import __version__
from longstride.cli import main
from longstride.process.recommend.advice import DRAWN
from longstride.process.simulator import ProcessSimulator
from longstride.training.evaluation.trained_policy import trained_policy
from longstride.training.run_directory.acting_file import keep_acting
from longstride.training.run_directory.checkpoint import load_arrays, seal, unseal
from longstride.training.run_directory.directory import RunDirectory

STATE = {
    "time": "2026-11-24T09:30:00",
    "waiting": [
        {"case": "x", "activity": "A", "since": "2026-11-24T08:15:00"},
        {"case": "y", "activity": "B", "since": "2026-11-24T09:00:00"},
        {"case": "z", "activity": "B", "since": "2026-11-24T09:20:00"},
    ],
    "on_shift": ["day", "night"],
}
LOG = """case,activity,resource,start,end
x,C,always,2026-11-24 08:00,2026-11-24 08:15
y,A,day,2026-11-24 08:30,2026-11-24 09:00
w,C,always,2026-11-24 09:25,
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    simulator = ProcessSimulator(office())
    return save_policy(tmp_path_factory.mktemp("runs") / "office", simulator, some_policy(simulator))


@pytest.fixture
def recommend(run, tmp_path, capsys):
    """Return a function that runs the mode on a state or a log, and returns exit code, output and error."""

    def run_mode(content, *flags):
        file = tmp_path / ("state.json" if content.lstrip().startswith("{") else "log.csv")
        file.write_text(content)
        code = main(["--mode", "recommend", "--run-directory", str(run), "--state", str(file), *flags])
        return code, *capsys.readouterr()

    return run_mode


def test_a_state_as_a_table_and_as_json(recommend):
    code, output, error = recommend(json.dumps(STATE))
    assert (code, error) == (0, "")
    answer = json.loads(recommend(json.dumps(STATE), "--json")[1])
    pairs = [(each["person"], each["activity"], each["case"]) for each in answer["assignments"]]
    assert sorted(pairs) == [("day", "A", "x"), ("day", "B", "y"), ("night", "A", "x"), ("night", "B", "y")]
    assert answer["recommended"] == dict(zip(("person", "activity", "case"), pairs[0], strict=True))
    waited = {each["case"]: each["waited"] for each in answer["assignments"]}
    assert waited == {"x": 75.0, "y": 30.0}
    assert "{} should do {} of case {}.".format(*pairs[0]) in output
    assert all(f"│ {person} " in output and f"│ {activity} " in output for person, activity, _ in pairs)
    assert "75.0 min" in output
    fifo, spt = answer["heuristics"]["fifo"], answer["heuristics"]["spt"]
    assert f"fifo would give {fifo['activity']} of case {fifo['case']} to {fifo['person']}." in output
    assert (fifo["case"], spt["activity"]) == ("x", "B")
    chosen = {(each["person"], each["case"]): each["chosen_by"] for each in answer["assignments"]}
    assert ("fifo" in chosen[fifo["person"], "x"], "spt" in chosen["day", "y"]) == (True, True)
    one = json.loads(recommend(json.dumps(STATE), "--json", "--top", "1")[1])
    assert (one["assignments"], one["feasible"]) == (answer["assignments"][:1], 4)


def test_postponing_is_an_option_in_words(recommend):
    output = recommend(json.dumps({**STATE, "waiting": []}))[1]
    assert output == "No free person can do a waiting task, so there is nothing to decide.\n"
    assert "│ nobody │ Assign nothing now │" in recommend(json.dumps(STATE))[1]
    assert "3 less probable assignments are not shown" in recommend(json.dumps(STATE), "--top", "1")[1]


def test_brackets_in_names_are_shown_as_they_are(recommend):
    tasks = [{**task, "case": f"[/{task['case']}] [red]"} for task in STATE["waiting"]]
    code, output, _ = recommend(json.dumps({**STATE, "waiting": tasks}))
    assert code == 0
    assert "│ [/x] [red] │" in output


@pytest.mark.parametrize("columns", ["60", "80", "200"])
def test_a_narrow_terminal_has_several_tables_with_whole_words(recommend, monkeypatch, columns):
    monkeypatch.setenv("COLUMNS", columns)
    output = recommend(json.dumps(STATE))[1]
    headers = ["person", "activity", "case", "probability", "waited", "service time", "fastest", "others free"]
    assert all(f" {header} " in output for header in headers)
    assert "…" not in output
    assert "│ nobody │ Assign nothing now │" in output
    assert output.count("┓") == {"60": 3, "80": 2, "200": 1}[columns]


def test_a_log_of_open_cases(recommend):
    code, output, _ = recommend(LOG, "--at", "2026-11-24T09:30")
    assert code == 0
    assert "log.csv at 2026-11-24T09:30:00: waiting tasks 5, in work 1, at rest 0; people on shift 2." in output
    assert "3 cases: the next task is inferred from the scenario's flow" in output
    answer = json.loads(recommend(LOG, "--at", "2026-11-24T09:30", "--on-shift", "night", "always", "--json")[1])
    assert {each["person"] for each in answer["assignments"]} == {"night"}
    assert {each["case"] for each in answer["assignments"]} <= {"x", "y", "w"}
    assert len(answer["notes"]) == 2


def test_json_is_all_that_is_printed(recommend, run):
    damaged = run / "checkpoints" / "last" / "iteration-00000008.json"
    damaged.write_text("{")
    try:
        answer = json.loads(recommend(json.dumps(STATE), "--json")[1])
    finally:
        damaged.unlink()
    assert ["that of iteration 7 is used." in note for note in answer["notes"]] == [True]


def test_the_same_from_python(recommend, run):
    recommender = longstride.load_recommender(run)
    assert isinstance(recommender, longstride.Recommender)
    answer = json.loads(recommend(json.dumps(STATE), "--json")[1])
    digest = hashlib.sha256((run / "checkpoints" / "last" / "policy.safetensors").read_bytes()).hexdigest()
    identity = {"policy_sha256": digest, "version": __version__}
    assert {**recommender.recommend(STATE), **identity, "notes": []} == answer
    with pytest.raises(longstride.UserError, match=r"The state: waiting\[0\]: Input should"):
        recommender.recommend({"time": 1, "waiting": [1]})


def test_a_policy_draws_if_an_evaluation_has_shown_draws_to_be_better(recommend, run):
    """The same state gets the same draw; over many states all assignments occur as often as their probability."""
    likeliest = longstride.load_recommender(run).recommend(STATE)
    directory, policy = RunDirectory(run), trained_policy(*load_arrays(run / "checkpoints" / "last", print))
    keep_acting(directory, True, {}, policy.actor_params)
    try:
        recommender, expected, drawn = longstride.load_recommender(run), Counter(), Counter()
        output, answer = recommend(json.dumps(STATE))[1], json.loads(recommend(json.dumps(STATE), "--json")[1])
        for second in range(400):
            found = recommender.recommend({**STATE, "time": f"2026-11-24T09:{30 + second // 60}:{second % 60:02d}"})
            chosen = found["recommended"]
            drawn[(chosen["person"], chosen["case"]) if chosen else None] += 1
            expected.update({(each["person"], each["case"]): each["probability"] for each in found["assignments"]})
    finally:
        directory.acting.unlink()
    assert (likeliest["drawn"], answer["drawn"]) == (False, True)
    assert recommender.recommend(STATE)["action"] == answer["action"], "the same state, the same draw"
    assert DRAWN in output
    assert len(drawn) > 2
    for pair, share in expected.items():
        assert abs(drawn[pair] - share) < 40, "a standard deviation is at most 10"


TASK = '{"case": "x", "activity": "A", "since": 0}'


@pytest.mark.parametrize(
    ("content", "flags", "sentence"),
    [
        ("{}", (), "state.json: time is missing."),
        ('{"time": 1', (), "state.json: this is not JSON: EOF while parsing an object at line 1 column 10."),
        ('{"time": true}', (), "state.json: time: Input should be a valid number (it is True)."),
        (
            f'{{"time": 1, "waiting": [{TASK.replace("0", "false")}]}}',
            (),
            "waiting[0].since: Input should be a valid number",
        ),
        ('{"time": -1}', (), "time: -1 is before 0"),
        ('{"time": 1e300}', (), "state.json: time: Input should be less than or equal to"),
        (
            '{"time": 1, "resting": [{"case": 1, "activity": "A", "place": true}]}',
            (),
            "resting[0].place: Input should be",
        ),
        ('{"time": 1, "next_changes": {"day": [false, 2]}}', (), "next_changes.day[0]: Input should be a valid number"),
        ('{"time": 1, "time": 2}', (), "state.json: the key 'time' stands twice in one object"),
        (f'{{"time": 1, "waiting": [{TASK}, {TASK}]}}', (), "state.json: waiting[1] repeats waiting[0]"),
        ('{"time": 1}', ("--at", "2026-11-24"), "--at applies to logs only;"),
        ('{"time": 1}', ("--on-shift", "day"), "--on-shift applies to logs only;"),
        ('{"time": 1}', ("--serve", "80"), "either --state FILE, a state or a log of open cases, or --serve PORT."),
        ('{"time": 1}', ("--host", "::1"), "--host goes with --serve PORT."),
        ('{"time": 1}', ("--top", "-1"), "--top is -1; expected a number of assignments, 0 for all."),
        ('{"time": 1, "memory": "x"}', ("--scenario", "loan_desk"), "belongs to a different simulator"),
        ("a,b\n1,2\n", (), "no column is recognised for case, activity, resource, start, end"),
    ],
)
def test_what_is_refused(recommend, content, flags, sentence):
    code, output, error = recommend(content, *flags)
    assert (code, output, error.count("\n")) == (2, "", 1)
    assert sentence in error


def test_runs_that_recommend_nothing(run, tmp_path, capsys):
    state = tmp_path / "state.json"
    state.write_text('{"time": 1}')
    other = tmp_path / "other" / "checkpoints" / "last"
    other.mkdir(parents=True)
    file = next((run / "checkpoints" / "last").glob("*.json"))
    for path in file.parent.iterdir():
        (other / path.name).write_bytes(path.read_bytes())
    about = unseal(file.read_bytes())
    about["simulator"] |= {
        "simulator": "longstride.simulators.classic_control.cartpole:CartPole",
        "observation_size": 4,
    }
    about["simulator"] |= {"actions": 2, "action_features": 0}
    (other / file.name).write_bytes(seal({**about, "source": {"simulator": "cartpole"}}))
    cases = {
        "needs --run-directory DIR": ["--state", str(state)],
        "There is no checkpoint in": ["--state", str(state), "--run-directory", str(tmp_path)],
        "There is no file": ["--state", str(tmp_path / "none.json"), "--run-directory", str(run)],
        "simulates cartpole; --mode recommend is for processes": ["--state", str(state), "--checkpoint", str(other)],
        "--serve 99999": ["--serve", "99999", "--run-directory", str(run)],
        "the service needs a token": ["--serve", "0", "--host", "0.0.0.0", "--run-directory", str(run)],
        "--state does not go with --mode evaluate": ["--mode", "evaluate", "--state", "x"],
    }
    for sentence, flags in cases.items():
        assert main(["--mode", "recommend", *flags]) == 2
        assert sentence in (error := capsys.readouterr().err), error
        assert error.count("\n") == 1


def test_serve_without_its_packages_names_the_extra(run, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    for module in [name for name in sys.modules if name.startswith("longstride.process.recommend.service.")]:
        monkeypatch.delitem(sys.modules, module)
    assert main(["--mode", "recommend", "--serve", "0", "--run-directory", str(run)]) == 2
    assert "pip install 'longstride[service]'" in capsys.readouterr().err
