"""JSON files of a run with arbitrary content: a value or a sentence in every mode that reads them."""

import json
import shutil
from pathlib import Path

import pytest

pytest.importorskip("pydantic")
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from longstride.cli import main
from longstride.config import Config
from longstride.errors import UserError
from longstride.settings import Settings
from longstride.training.assembly.resumed_settings import resumed_settings
from longstride.training.run_directory.checkpoint import load_checkpoint, seal
from longstride.training.run_directory.directory import RunDirectory, checkpoint_files
from longstride.training.run_directory.metrics_log import read_metrics, whole_records
from longstride.training.run_directory.plots import curve_of, read_evaluation
from longstride.training.run_directory.read_json import parse_json
from longstride.training.tracking.tracking import _read

DEEP = "[" * 100_000 + "]" * 100_000
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.just(10**400),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
OFTEN = settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))
EXAMPLES = pytest.mark.parametrize("examples", [8, pytest.param(50, marks=pytest.mark.slow)])
"""Each example is a report or an evaluation, which takes a second."""


def repeat(check, examples):
    """Call a check with so many random contents."""
    settings(max_examples=examples, deadline=None, suppress_health_check=list(HealthCheck))(given(st.data())(check))()


def damaged(content, data):
    """Return JSON content with another value at a random place, or another value as a whole."""
    if isinstance(content, dict) and content and data.draw(st.integers(0, 9)):
        key = data.draw(st.sampled_from(sorted(content)))
        return {**content, key: damaged(content[key], data)}
    if isinstance(content, list) and content and data.draw(st.integers(0, 2)):
        return [damaged(content[0], data), *content[1:]]
    return data.draw(JSON)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A run of two iterations with an evaluation."""
    directory = tmp_path_factory.mktemp("json") / "run"
    small = "--simulator cartpole --num-envs 2 --rollout-steps 64 --actor-hidden-size 16 --no-report"
    small += " --critic-hidden-size 16 --num-hidden-layers 1 --batch-size 64 --device cpu --training-episodes 2"
    assert main([*small.split(), "--run-directory", str(directory)]) == 0
    assert (
        main(["--mode", "evaluate", "--checkpoint", str(directory), "--evaluation-episodes", "3", "--no-report"]) == 0
    )
    return RunDirectory(directory)


@pytest.fixture
def run(finished, tmp_path):
    shutil.copytree(finished.path, tmp_path / "run")
    return RunDirectory(tmp_path / "run")


@pytest.mark.parametrize(
    "text", [DEEP, '{"a": ' * 100_000 + "1" + "}" * 100_000, "1" * 5000, '"\\ud800"', "[1]", "nul"]
)
def test_what_is_no_object_is_a_value_error(text):
    with pytest.raises(ValueError, match=r"\S"):
        parse_json(text)


@OFTEN
@given(JSON)
@example({"values": None})
@example({"values": {}, "sources": ["seed"]})
@example({"values": {"seed": 1}, "sources": {"nobody": "flag"}})
@example({"values": {"seed": 1}, "resumed": [{"before": 1}]})
def test_config_json_is_read_or_refused(tmp_path_factory, content):
    directory = tmp_path_factory.getbasetemp() / "config"
    directory.mkdir(exist_ok=True)
    (directory / "config.json").write_text(json.dumps(content))
    config = Config(run_directory=str(directory))
    try:
        resumed_settings(Settings(config, dict.fromkeys(Config.model_fields, "default")))
    except UserError as error:
        assert "config.json" in str(error)


@OFTEN
@given(st.lists(JSON | st.fixed_dictionaries({"iteration": JSON, "metrics": JSON, "return": JSON, "steps": JSON})))
@example([{"iteration": 1}])
def test_lines_of_metrics_are_records_or_left_out(tmp_path_factory, lines):
    directory = tmp_path_factory.getbasetemp() / "metrics"
    directory.mkdir(exist_ok=True)
    (directory / "metrics.jsonl").write_text("\n".join([DEEP, *map(json.dumps, lines)]))
    assert all(record["iteration"] >= 1 for record in read_metrics(directory))
    curve_of(whole_records(directory), "return")


@OFTEN
@given(JSON | st.dictionaries(st.just("here"), JSON))
def test_what_a_service_has_is_read_or_refused(tmp_path_factory, content):
    path = tmp_path_factory.getbasetemp() / "tracking-wandb.json"
    path.write_text(json.dumps(content))
    try:
        assert isinstance(_read(path), dict)
    except UserError as error:
        assert str(error) == f"{path} is damaged; remove it to send the run again."


@OFTEN
@given(JSON)
def test_an_evaluation_is_read_or_none(tmp_path_factory, content):
    path = tmp_path_factory.getbasetemp() / "evaluated"
    path.mkdir(exist_ok=True)
    (path / "evaluation.json").write_text(json.dumps(content))
    assert isinstance(read_evaluation(RunDirectory(path)), dict)


@pytest.mark.parametrize("name", ["config.json", "plan.json", "evaluation.json", "metrics.jsonl"])
@pytest.mark.parametrize("text", [DEEP, '{"values": null, "iteration": 1, "per_episode": [], "reasons": 3}'])
def test_a_report_of_damaged_files_is_a_page_or_a_sentence(run, name, text, capsys):
    (run.path / name).write_text(text)
    code = main(["--mode", "report", "--run-directory", str(run)])
    out = capsys.readouterr()
    assert (code, "Report: " in out.out) == (0, True) or (code == 2 and out.err.startswith("error: "))


@EXAMPLES
def test_a_report_of_any_content_is_a_page_or_a_sentence(finished, tmp_path_factory, examples):
    def check(data):
        run = RunDirectory(tmp_path_factory.mktemp("any") / "run")
        shutil.copytree(finished.path, run.path)
        name = data.draw(st.sampled_from(["config.json", "plan.json", "evaluation.json", "metrics.jsonl"]))
        whole = [json.loads(line) for line in (run.path / name).read_text().splitlines()] if "jsonl" in name else None
        if whole:
            (run.path / name).write_text("\n".join(json.dumps(damaged(record, data)) for record in whole))
        else:
            (run.path / name).write_text(json.dumps(damaged(json.loads((run.path / name).read_text()), data)))
        assert main(["--mode", "report", "--run-directory", str(run)]) in (0, 2)
        shutil.rmtree(run.path.parent)

    repeat(check, examples)


@EXAMPLES
def test_facts_of_any_content_are_a_result_or_a_sentence(finished, tmp_path_factory, examples):
    def check(data):
        run = RunDirectory(tmp_path_factory.mktemp("facts") / "run")
        shutil.copytree(finished.path, run.path)
        for file in checkpoint_files(run.checkpoints("last")):
            facts = json.loads(file.read_text())
            del facts["sha256"]
            changed = damaged(facts, data)
            file.write_bytes(seal(changed if isinstance(changed, dict) else {"x": changed}))
        quick = ["--evaluation-episodes", "2", "--no-report"]
        mode = data.draw(st.sampled_from([["report", "--run-directory"], ["evaluate", *quick, "--checkpoint"]]))
        assert main(["--mode", *mode, str(run.path)]) in (0, 2)
        try:
            assert isinstance(load_checkpoint(run.path)[1], dict)
        except UserError as error:
            assert str(error)
        shutil.rmtree(run.path.parent)

    repeat(check, examples)


def test_a_resume_of_damaged_files_is_a_sentence_or_goes_on(run, capsys):
    arguments = ["--mode", "train", "--resume", "--run-directory", str(run), "--training-episodes", "3", "--no-report"]
    run.config.write_text(DEEP)
    assert main(arguments) == 2
    sentence = f"error: {run.config} is damaged; name another --run-directory, or remove the file.\n"
    assert capsys.readouterr().err == sentence
    Path(run.config).unlink()
    run.metrics.write_text('{"iteration": 1}\n' + DEEP)
    assert main(["--mode", "replay", "--run-directory", str(run), "--iteration", "1"]) == 2
