"""The report of a GPU on a machine without one: its parts' processes, resuming, the table, and what they measure."""

import argparse
import json
import os
import re
import subprocess
import sys
import tarfile
from importlib import import_module
from pathlib import Path

import psutil
import pytest
import torch

from benchmarks.executions import Side
from benchmarks.gpu_report import (
    capture_failure,
    command,
    constants,
    counts,
    gpu_tests,
    machine,
    memory,
    precision,
    profile_step,
    step_times,
    trace,
    training,
    usual_trainers,
)
from benchmarks.gpu_report.markdown import markdown, table
from benchmarks.gpu_report.parts import BY_NAME, PARTS, Part, Task
from benchmarks.gpu_report.report_file import Report, Result, open_report, write_report
from benchmarks.gpu_report.runner import Files, Runner, ask_facts, why_skipped
from longstride import cli
from longstride.commands.ab.report import CommonMetric, compare
from longstride.commands.flags import read_flags
from longstride.errors import UserError

ROOT = Path(__file__).resolve().parents[2]

NO_CARD = {"card": None, "no_gpu": "torch finds none", "driver": "", "torch": "2", "python": "3", "rehearsal": False}
CARD = {**NO_CARD, "card": "NVIDIA A40", "card_bytes": 48 * 10**9, "driver": "550", "cores": 8, "no_gpu": ""}

torch.set_num_threads(1)


def part(what, seconds=30, name="", **changes):
    """Return a part of ``helpers/report_parts.py``, which is named for what it does."""
    made = Part(name or what.replace(" ", "_"), f"A part that {what}", seconds, "helpers.report_parts")
    return made._replace(arguments={"what": what}, needs_gpu=False, **changes)


class Reporter:
    """Runs parts as the command does, each call with the report that the last one wrote."""

    def __init__(self, directory, facts=NO_CARD):
        self.files, self.facts, self.said = Files(directory), facts, []
        directory.joinpath("parts").mkdir(parents=True)

    def run(self, *parts, again=(), seconds=1500.0, clock=None):
        report = open_report(self.files.json, self.facts, fresh=False)
        clocks = {"clock": clock} if clock else {}
        runner = Runner(report, self.files, seconds, self.said.append, **clocks)
        runner.run(parts, again)
        return json.loads(self.files.json.read_text())["parts"]


@pytest.fixture
def reporter(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "tests"))
    return Reporter(tmp_path / "report")


def small(tmp_path, kept=None):
    """Return what a part of a rehearsal gets."""
    return Task("cpu", True, tmp_path, (kept if kept is not None else {}).update)


def test_a_failure_and_a_crash_cost_only_their_parts(reporter):
    parts = part("fails"), part("crashes"), part("half"), part("no table"), part("ends well")
    found = reporter.run(*parts)
    assert [found[each.name]["state"] for each in parts] == ["failed", "failed", "failed", "done", "done"]
    assert [found[each.name]["why"] for each in parts[:3]] == [
        "ValueError: no luck",
        "ended by SIGKILL; last words",
        "half of it",
    ]
    assert all(found[each.name]["figures"]["kept"] for each in parts), "what was measured before the failure stays"
    assert "their table failed (KeyError: 'missing')" in found["no_table"]["lines"][0]
    assert found["ends_well"]["figures"]["device"] == "cpu"
    assert "fails: failed: ValueError: no luck." in reporter.said
    text = reporter.files.markdown.read_text()
    assert "no GPU" not in text and "Nothing of a GPU was measured here: torch finds none" in text


def test_what_is_done_is_not_run_again_and_what_failed_is(reporter):
    parts = part("ends well"), part("fails")
    first = reporter.run(*parts)
    reporter.said.clear()
    second = reporter.run(*parts)
    assert second["ends_well"] == first["ends_well"]
    assert [line.split(",")[0] for line in reporter.said] == [
        f"ends_well: done before ({first['ends_well']['date']}).",
        "fails: A part that fails",
        "fails: failed: ValueError: no luck.",
    ]
    third = reporter.run(parts[0], again=["ends_well"])
    assert third["ends_well"]["figures"]["runs"] == 2
    assert set(third) == {"ends_well", "fails"}


def test_a_part_that_never_ends_is_ended_with_all_that_it_started_and_its_figures_stay(reporter):
    found = reporter.run(part("never ends", seconds=1))["never_ends"]
    assert (found["state"], found["why"]) == ("timed out", "took more than 1 s")
    assert len(found["figures"]["children"]) == 2
    assert not [pid for pid in found["figures"]["children"] if psutil.pid_exists(pid) and not _is_over(pid)]


def _is_over(pid):
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.Error:
        return True


def test_a_part_begins_only_if_it_can_end_in_time(reporter):
    times = iter([0.0, 100.0, 170.0, 0.0, 0.0])
    parts = part("ends well", 60), part("ends well", 60, name="another")
    found = reporter.run(*parts, seconds=200.0, clock=lambda: next(times))
    assert [found[each.name]["state"] for each in parts] == ["done", "no time left"]
    assert found["another"]["why"] == "it may take 60 s, and 30 s were left"
    assert reporter.run(*parts, seconds=200.0, clock=lambda: 0.0)["another"]["state"] == "done"


def test_parts_run_on_the_card_where_there_is_one(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "tests"))
    on_a_card = Reporter(tmp_path / "report", CARD)
    assert on_a_card.run(part("ends well")._replace(needs_gpu=True))["ends_well"]["figures"]["device"] == "cuda"


def test_a_failure_stays_in_the_report_when_no_time_is_left_to_repeat_it(reporter):
    reporter.run(part("fails"))
    found = reporter.run(part("fails"), seconds=1.0)
    assert found["fails"]["state"] == "failed"
    assert reporter.said[-1] == "fails: no time left; failed before."


def test_what_is_missing_is_said():
    assert why_skipped(BY_NAME["steps"], NO_CARD) == "it needs an NVIDIA GPU, and torch finds none"
    assert why_skipped(BY_NAME["steps"], {**NO_CARD, "rehearsal": True}) == ""
    assert "needs an NVIDIA GPU" in why_skipped(BY_NAME["replay_tests"], {**NO_CARD, "rehearsal": True})
    assert why_skipped(BY_NAME["steps"], CARD) == ""
    lacking = BY_NAME["guide"]._replace(packages=("no_such_package",))
    assert why_skipped(lacking, CARD) == "it needs no_such_package, not installed here"


def test_reports_of_two_cards_are_not_mixed(tmp_path):
    path = tmp_path / "gpu_report.json"
    write_report(path, Report(CARD, {"steps": Result("done", lines=("a",))}))
    assert open_report(path, CARD, fresh=False).results["steps"].lines == ("a",)
    other = {**CARD, "card": "NVIDIA H200"}
    with pytest.raises(UserError, match=r"another machine \(card: NVIDIA A40 there, NVIDIA H200 here\).*--fresh"):
        open_report(path, other, fresh=False)
    with pytest.raises(UserError, match="card: NVIDIA A40 there, none here"):
        open_report(path, NO_CARD, fresh=False)
    assert open_report(path, other, fresh=True).results == {}
    write_report(path, Report(NO_CARD, {"steps": Result("skipped")}))
    assert open_report(path, CARD, fresh=False) == Report(CARD, {}), "without a card there was nothing to lose"


def test_everything_but_checkpoints_is_packed_into_one_file(reporter):
    reporter.run(part("ends well"))
    for name in ("run/checkpoints/last/model", "run/best/model", "run/metrics.jsonl"):
        file = reporter.files.folder("ends_well") / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("x")
    Runner(open_report(reporter.files.json, reporter.facts, fresh=False), reporter.files, 1.0, print).pack()
    with tarfile.open(reporter.files.packed) as packed:
        names = {member.name for member in packed if member.isfile()}
    assert {"gpu_report/gpu_report.json", "gpu_report/parts/ends_well.log"} <= names
    assert "gpu_report/parts/ends_well/run/metrics.jsonl" in names
    assert not [name for name in names if name.endswith("model")]


def test_two_ranks_need_two_cards():
    assert why_skipped(BY_NAME["two_ranks"], {**CARD, "cards": 1}) == "it needs 2 GPUs, and there is one"
    assert why_skipped(BY_NAME["two_ranks"], {**CARD, "cards": 2}) == ""


@pytest.mark.parametrize("content", ["", "[1]", '{"parts": {"a": 1}, "facts": {}}', '{"parts": {}, "facts": {}}'])
def test_a_damaged_report_is_named(content, tmp_path):
    path = tmp_path / "gpu_report.json"
    path.write_text(content)
    with pytest.raises(UserError, match="damaged or of another version"):
        open_report(path, CARD, fresh=False)


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        (["--only", "stepps"], "there is no part 'stepps'; did you mean steps?"),
        (["--limit", "0"], "'0' should be minutes above 0"),
        (["--limit", "soon"], "'soon' should be minutes above 0"),
        (["--frsh"], "--frsh"),
        (["--directory", __file__], "Not a directory"),
    ],
)
def test_bad_input_is_one_sentence(flags, sentence, capsys):
    assert command.main(flags) == command.EXIT_BAD_INPUT
    error = capsys.readouterr().err
    assert error.startswith("error: ") and sentence in error and error.count("\n") == 1


def test_an_interruption_keeps_what_is_done(monkeypatch, tmp_path, capsys):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(command, "ask_facts", interrupted)
    assert command.main(["--directory", str(tmp_path)]) == command.EXIT_INTERRUPTED
    assert "finished parts are kept" in capsys.readouterr().err


def test_parts_are_listed_and_chosen(monkeypatch, tmp_path, capsys):
    assert command.main(["--list"]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == list(BY_NAME)
    monkeypatch.setattr(command, "ask_facts", lambda *_: dict(NO_CARD))
    assert command.main(["--directory", str(tmp_path), "--only", "steps", "--again", "memory"]) == 0
    assert set(json.loads((tmp_path / "gpu_report.json").read_text())["parts"]) == {"steps", "memory"}
    out = capsys.readouterr().out
    assert "2 parts: 2 skipped." in out and "No GPU: torch finds none." in out


def test_exit_codes_and_last_lines(tmp_path, capsys):
    results = {"steps": Result("failed", "x"), "memory": Result("no time left", "y"), "guide": Result("done")}
    chosen = [BY_NAME[name] for name in results]
    assert command.conclude(Report(CARD, results), chosen, Files(tmp_path)) == command.EXIT_FAILED
    out = capsys.readouterr().out
    assert "3 parts: 1 failed, 1 no time left, 1 done." in out
    assert "goes on with the parts that had no time left" in out and "run again with the same command" in out
    assert command.conclude(Report(CARD, results), chosen[1:], Files(tmp_path)) == 0


@pytest.mark.slow
def test_make_gpu_without_a_gpu(tmp_path):
    """The real command in its own processes; the virtual environment is made up of this interpreter."""
    environment, directory = tmp_path / "venv", tmp_path / "report"
    (environment / "bin").mkdir(parents=True)
    (environment / "bin" / "python").write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    (environment / "bin" / "python").chmod(0o755)
    (environment / ".installed-test").touch()
    variables = {**os.environ, "CUDA_VISIBLE_DEVICES": ""}
    make = ["make", "gpu", f"VENV={environment}", f"FLAGS=--directory {directory}"]
    done = subprocess.run(make, cwd=ROOT, env=variables, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads((directory / "gpu_report.json").read_text())["parts"]
    assert list(found) == list(BY_NAME)
    assert found["machine"]["state"] == "done", found["machine"]
    assert found["counts"]["state"] == "done", found["counts"]
    assert {result["state"] for name, result in found.items() if BY_NAME[name].needs_gpu} == {"skipped"}
    imported = {row["module"]: row["problem"] for row in found["machine"]["figures"]["imports"]}
    assert imported["longstride.learning.updater"] == ""
    text = (directory / "gpu_report.md").read_text()
    assert "**Nothing of a GPU was measured here: " in text and "| import longstride.learning.updater |" in text


def test_facts_that_cannot_be_asked_for_leave_no_gpu(monkeypatch, tmp_path):
    broken = tmp_path / "torch.py"
    broken.write_text("raise ImportError('libcudart.so is missing')")
    monkeypatch.setattr("benchmarks.gpu_report.process.ROOT", tmp_path)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), str(ROOT), str(ROOT / "src" / "core")]))
    facts = ask_facts(Files(tmp_path / "report"), rehearsal=False)
    assert facts["card"] is None and "libcudart.so is missing" in facts["no_gpu"]


def test_the_parts_are_what_is_there():
    assert len(BY_NAME) == len(PARTS)
    for each in PARTS:
        module = import_module(each.module)
        assert callable(module.measure) and callable(module.lines)
        for argument in each.arguments.get("arguments", ()):
            assert not argument.startswith("tests/") or (ROOT / argument).is_file()
        if flags := each.arguments.get("flags"):
            read_flags(["--mode", "train", *flags], cli.MODES)
        assert each.seconds <= 240
    guide = " ".join(BY_NAME["guide"].arguments["flags"])
    for flag in ("--num-envs 1", "--num-epochs 10", "--batch-size 65536"):
        assert flag in guide


def test_the_words_that_choose_tests_choose_some():
    chosen = [each.arguments["arguments"] for each in PARTS if each.module.endswith("gpu_tests")]
    names = set(re.findall(r"def (test_\w+)", (ROOT / "tests/learning/steps/test_gpu_execution.py").read_text()))
    words = [word for arguments in chosen if "-k" in arguments for word in arguments[-1].split(" or ")]
    for word in words:
        assert any(word in name for name in names), word
    left = {name for name in names if not any(word in name for word in words)}
    assert left == {"test_times_of_a_default_update"}, "the times have a part of their own"


def test_tests_are_counted_while_they_run(tmp_path):
    file = tmp_path / "test_three.py"
    file.write_text(
        "import pytest\n"
        "@pytest.mark.gpu\n@pytest.mark.parametrize('x', ['a b', 2])\ndef test_two(x): assert x == 2, 'not two'\n"
        "@pytest.mark.gpu\ndef test_skipped(): pytest.skip('why')\n"
        "def test_unmarked(): pass\n"
    )
    kept = {}
    found = gpu_tests.measure(small(tmp_path, kept), [str(file)])
    assert found["counts"] == {"FAILED": 1, "PASSED": 1, "SKIPPED": 1}
    assert found["problem"] == "1 of 3 tests failed"
    assert [why for why in found["failed"].values() if "not two" in why]
    assert "test_two[a b]" in "\n".join(gpu_tests.lines(found))
    assert kept["counts"] == found["counts"]
    assert gpu_tests.problem({"failed": {}, "counts": {}}, 5) == "pytest found no test"
    assert gpu_tests.problem({"failed": {}, "counts": {"PASSED": 1}}, 0) == ""


def test_steps_are_timed_on_the_cpu(tmp_path):
    kept = {}
    found = step_times.measure(small(tmp_path, kept), ("eager", "graph"))
    (row,) = found["rows"]
    assert kept["rows"] == found["rows"] and found["problem"] == ""
    assert (row["batch"], row["precision"], row["execution"], row["problem"]) == (64, "fp32", "eager", "")
    assert row["ms"] > 0.0
    assert "| 64 | fp32 | eager | " in step_times.lines(found)[2]
    failed = step_times.lines({"rows": [{**row, "problem": "no luck", "ratio": None, "predicted": 1.0}]})
    assert "| no luck |" in failed[2]


def test_executions_that_fail_have_a_row_with_their_problem():
    side = Side("fp32", "graph", 64, 64, "cpu")  # there is no stream to capture on
    assert side.problem
    assert side.row(None, side)["problem"] == side.problem


def test_a_step_is_profiled_on_the_cpu(tmp_path):
    kept = {}
    kept.update(profile_step.measure(small(tmp_path, kept)))
    (step,) = kept["steps"]
    assert step["kernels"] > step["predicted_operations"] > 90
    assert all(0.0 < step[part] < step["ms"] for part in ("feature_ms", "observation_product_ms"))
    assert len(kept["products"]) == 8 and all(row["ms"] > 0.0 for row in kept["products"])
    assert any("aten::addmm" in line for line in profile_step.lines(kept))


def test_steps_are_counted_before_and_after(tmp_path):
    """The fake card counts the same launches (tests/learning/test_fake_card.py), but for the upload of indices."""
    figures = counts.measure(small(tmp_path))
    found = {(row["samples"], row["precision"], row["way"]): row for row in figures["rows"]}
    assert len(found) == 2 * 2 * 4
    for (samples, kind, _), row in found.items():
        before, after, triton, compiled = (found[samples, kind, way] for way in counts.WAYS)
        assert row["products"] == (25 if row in (after, triton) else 22), "sums of biases"
        assert triton["launches"] < compiled["launches"] < after["launches"] < before["launches"]
        assert max(compiled["bytes"], after["bytes"]) < before["bytes"]
        assert triton["bytes"] < after["bytes"]
        assert before["launches"] - after["launches"] == {"bf16": 57, "fp32": 55}[kind]
        assert after["launches"] - triton["launches"] == {"bf16": 63, "fp32": 62}[kind]
    assert len(counts.lines(figures)) == 2 + len(found)


def test_the_trace_of_a_gpu():
    """Events as Kineto writes them: kernels have the external id of the operation that launched them."""
    dims = [[62 * 8], [62 * 8, 2], [2], [], []]
    events = [
        {"ph": "M", "name": "process_name"},
        {"ph": "X", "cat": "cpu_op", "name": "aten::addmv_", "dur": 9, "args": {"External id": 7, "Input Dims": dims}},
        {"ph": "X", "cat": "kernel", "name": "gemv", "dur": 250.0, "args": {"External id": 7, "correlation": 1}},
        {"ph": "X", "cat": "kernel", "name": "relu", "dur": 50.0, "args": {"correlation": 2}},
        {"ph": "X", "cat": "kernel", "name": "relu", "dur": 50.0, "args": {"correlation": 3}},
        {"ph": "X", "cat": "gpu_memcpy", "name": "Memcpy HtoD", "dur": 1.0, "args": {"bytes": 4096}},
        {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "dur": 1.0, "args": {"correlation": 1}},
        {"ph": "X", "cat": "cuda_runtime", "name": "cudaGraphLaunch", "dur": 1.0, "args": {"correlation": 2}},
        {"ph": "X", "cat": "cuda_runtime", "name": "cudaStreamSynchronize", "dur": 1.0, "args": {}},
    ]
    found = trace.read(events, "cuda")
    assert found.slowest(5) == [("gemv", 1, 0.25), ("relu", 2, pytest.approx(0.1))]
    assert (found.copies, found.copied_bytes) == (1, 4096)
    assert found.launches == {"cudaLaunchKernel": 1, "cudaGraphLaunch": 1}
    assert profile_step.parts_of(found, 8, False) == {"feature_ms": 0.25, "observation_product_ms": 0.0}
    assert profile_step.parts_of(found, 8, True) == {"feature_ms": None, "observation_product_ms": None}


def test_a_trace_may_have_numbers_that_json_has_not():
    text = '{"traceEvents": [{"name": "infer: nano", "args": {"blocks per SM": inf, "x":-nan, "bytes": 3}}]}'
    (event,) = trace.events_of(text)
    assert event == {"name": "infer: nano", "args": {"blocks per SM": None, "x": None, "bytes": 3}}


def test_launches_are_timed_on_the_cpu(tmp_path):
    found = constants.measure(small(tmp_path))
    assert [row["what"] for row in found["rows"]] == ["step, FP32", "additions to one number"]
    assert all(row["seconds"] > 0.0 for row in found["rows"])
    assert any(line.startswith("    LAUNCH_SECONDS = ") for line in constants.lines(found))
    captured = {**found["rows"][0], "execution": "graph", "seconds": 1.3e-6}
    assert constants.lines({"rows": [captured]})[-1] == "    REPLAY_SECONDS = 1.3e-06"


def test_the_prediction_of_memory_has_a_row(tmp_path):
    found = memory.measure(small(tmp_path))
    (row,) = found["rows"]
    assert row["predicted"] > 10**6 and row["allocated"] is None
    measured = {**row, "allocated": 2 * row["predicted"], "reserved": 10**9}
    assert "| 2.00 | 1,000.0 MB |" in memory.lines({"rows": [measured]})[2]


def test_a_failure_inside_a_capture_leaves_eager_steps(tmp_path):
    kept = {}
    found = capture_failure.measure(small(tmp_path, kept))
    assert found["problem"] == "" and all(found["checks"].values()) and len(found["checks"]) == 4
    assert "operation not permitted when stream is capturing" in kept["sentences"][1]
    assert "| steps go on as eager ones | yes |" in capture_failure.lines({**kept, **found})


@pytest.mark.slow  # where its kernels are not on the disk
def test_a_training_run_has_its_figures(monkeypatch, tmp_path):
    """The run is made in this process, whose imports are done."""
    file = ROOT / "hyperparameters.py"
    monkeypatch.setattr(training, "execute", lambda arguments: cli.main(arguments, default_file=file))
    found = training.measure(small(tmp_path), ("--update-execution", "graph"))
    assert found["problem"] == "" and found["iterations"] == 3
    assert found["seconds"]["iteration"] >= found["seconds"]["update"] > 0.0
    text = "\n".join(training.lines(found))
    assert "| execution, precision | numba, fp32 |" in text and "| MFU, % | - |" in text
    assert training.unfit({**found, "notes": ["Memory ran out."]}, ("--update-execution", "graph")) == (
        "steps ran as numba, not as graph: Memory ran out."
    )
    updating = {"utilisation": 80.0, "power_watts": 300.0, "sm_mhz": 1.0, "memory_bytes": 10**9, "throttled": 0.0}
    records = training.records_of(tmp_path / "run")
    on_a_card = [{**record, "gpu": {"updating": updating}, "mfu": 0.25} for record in records]
    text = "\n".join(training.lines({"flags": [], **training.figures_of(on_a_card)}))
    assert "| GPU busy while updating, % | 80 |" in text and "| MFU, % | 25.00% |" in text


def test_every_function_of_cuda_that_is_used_is_there():
    """The functions of torch that only a card can run have at least these names."""
    for file in (ROOT / "benchmarks/gpu_report").glob("*.py"):
        for name in re.findall(r"torch\.cuda\.(\w+)", file.read_text()):
            assert hasattr(torch.cuda, name), (file.name, name)


def test_a_capture_on_a_card_fails_while_it_captures_and_not_before(monkeypatch):
    capturing = []

    class Graphs:
        def __init__(self, device):
            pass

        def capture(self, function):
            for capturing[:] in ([], [], [], [True]):
                function()

    monkeypatch.setattr(capture_failure, "CudaGraphs", Graphs)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: bool(capturing))
    graphs = capture_failure.FailingGraphs(torch.device("cpu"))
    graphs._graphs, runs, reads = Graphs(None), [], []
    monkeypatch.setattr(graphs, "_number", type("Number", (), {"item": lambda self: reads.append(len(runs))})())
    graphs.capture(lambda: runs.append(1))
    assert (len(runs), reads) == (4, [4])


def test_memory_is_what_the_allocator_of_a_card_says(monkeypatch):
    figures = {"memory_allocated": 10, "max_memory_allocated": 110, "max_memory_reserved": 200}
    silent = ("synchronize", "empty_cache", "reset_peak_memory_stats")
    for name, value in {**figures, **dict.fromkeys(silent)}.items():
        monkeypatch.setattr(torch.cuda, name, lambda value=value: value)
    assert memory._peaks("cuda", memory._reset("cuda")) == {"allocated": 100, "reserved": 200}


def test_a_training_run_that_fails_says_its_last_line():
    with pytest.raises(RuntimeError, match=r"error: .*--gamma"):
        training.execute(["--mode", "train", "--gamma", "2"])


def test_learning_in_two_formats(monkeypatch, tmp_path):
    """The comparison is that of --mode ab, whose runs are not made here."""
    figures = {
        "iterations": 2,
        "seconds": {"iteration": 2.0, "step": 1e-6, "first_iteration": 3.0, "outside_iterations": 1.0},
        "outcome": 12.0,
        "chosen": {"execution": "graph", "precision": "fp32", "batch_size": 1024},
    }
    figures["seconds"] |= {"simulation": 1.0, "transfer": 0.1, "update": 0.9}
    asked = []

    def execute(arguments):
        asked.append(arguments)
        pairs = [{"seed": 0, "first": "a", "a": figures, "b": figures, "played_the_same": False}] * len(asked)
        folder = Path(arguments[arguments.index("--run-directory") + 1])
        folder.mkdir(parents=True, exist_ok=True)
        comparison = compare(pairs, CommonMetric("mean_cycle_time", True))
        (folder / "ab.json").write_text(json.dumps({"comparison": comparison}))

    monkeypatch.setattr(precision, "execute", execute)
    monkeypatch.setattr(precision, "half_of", lambda device: "bf16")
    found = precision.measure(Task("cuda", False, tmp_path, {}.update))
    assert [arguments[arguments.index("--pairs") + 1] for arguments in asked] == ["1", "2", "3"]
    assert "--precision bf16" in asked[0] and "--precision fp32" in asked[0]
    lines = precision.lines({"precisions": ["fp32", "bf16"], **found})
    assert "| mean_cycle_time | 12 | 12 | - |" in lines
    read_flags(asked[0], cli.MODES)


def test_the_usual_trainers_have_a_row_each(monkeypatch, tmp_path):
    medians = {"collect_steps_per_second": 2.0, "update_seconds": 3.0, "steps_per_second": 4.0}

    def run(command, **_):
        name = command[command.index("--trainers") + 1]
        Path(command[command.index("--json") + 1]).write_text(json.dumps({"medians": {name: medians}}))
        code = int(name == "leanrl")
        return argparse.Namespace(returncode=code, stdout="", stderr="Traceback\nRuntimeError: no compiler\n")

    monkeypatch.setattr(usual_trainers.subprocess, "run", run)
    monkeypatch.setattr(usual_trainers, "missing", lambda name: "not here" if name == "cleanrl" else "")
    found = usual_trainers.measure(small(tmp_path))
    assert found["problem"] == "leanrl: RuntimeError: no compiler"
    lines = usual_trainers.lines(found)
    assert "| longstride | 2.00 | 3.00 | 4.00 |" in lines and "| cleanrl | not here | - | - |" in lines


def test_copies_and_the_compiler():
    rows = machine.copies(torch.device("cpu"), 1 << 16)
    assert [row["way"] for row in rows] == ["up", "down"] and rows[0]["bytes_per_second"] > 0.0
    assert "| assumed by predictions: pinned copies | 20, 40 GB/s |" in machine.lines({"copies": rows})
    assert machine.compiler()["problem"] == "" or not machine.compiler()["command"]
    assert "No module named" in machine.import_of("no_such_module")["problem"]


def test_a_compiler_without_headers_is_named(monkeypatch):
    monkeypatch.setenv("CC", "false")
    assert machine.compiler() == {"command": "false", "problem": "it failed"}


def test_the_report_of_a_card():
    results = {
        "machine": Result("done", seconds=3.0, lines=("figures",), date="2026-11-22"),
        "steps": Result("timed out", "took more than 90 s", 90.0, {}, ("half",), "2026-11-22"),
    }
    text = markdown(Report(CARD, results))
    assert "NVIDIA A40 (48.00 GB), driver 550, torch 2, Python 3, 8 cores." in text
    assert "| steps | timed out | 90 | took more than 90 s |" in text
    assert "| memory | not run | - | - |" in text
    assert "**Timed out**: took more than 90 s.\n\nhalf" in text
    assert "rehearsal" in markdown(Report({**NO_CARD, "rehearsal": True}, {}))


def test_cells_of_a_table():
    assert table(("a", "b"), [(None, "x|y\nz")]) == ["| a | b |", "|---|---|", "| - | x\\|y z |"]


def test_nothing_but_the_children_imports_torch():
    code = "import sys, benchmarks.gpu_report.command; print('torch' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT}/src/core"},
        capture_output=True,
        text=True,
    )
    assert done.stdout.strip() == "False", done.stderr


def test_a_missing_package_is_a_sentence(tmp_path):
    """As on a machine with torch alone."""
    hidden = "import sys; sys.modules['psutil'] = None; sys.argv = ['gpu_report.py', '--list']; import runpy; "
    command = [sys.executable, "-c", hidden + "runpy.run_path('scripts/gpu_report.py', run_name='__main__')"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (2, "error: The Python package psutil is missing; pip install psutil.\n")
