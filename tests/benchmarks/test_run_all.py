"""All benchmarks in one command: what is run, what becomes of a failure, and the table; nothing is measured."""

import json
from types import SimpleNamespace

import pytest

from benchmarks import run_all

FOUND = {
    "collection": {
        **{"fused_us_per_decision": 2.5, "simulator_us_per_decision": 1.0, "network_us_per_decision": 1.5},
        **{"python_us_per_decision": 250.0, "ratio": 100.0},
    },
    "streams": {"drift": [{"threads": 2, "together": 4, "per_second": 2e6}]},
    "end_to_end": {
        "medians": {"longstride": {"steps_per_second": 7000.0}},
        "skipped": {"cleanrl": "gymnasium is not installed"},
    },
    "scaling": {
        "exponents": {"simulate": 0.98},
        "lengths": [{"decisions": 100_000, "peak": 50_000_000, "trajectory": 16_600_000, "working": 17_400_000}],
    },
}


@pytest.fixture
def commands(monkeypatch, tmp_path):
    """The commands that were run, which write what is above; update fails."""
    seen = {}

    def run(command, **_):
        name = command[1].rpartition("/")[2].removesuffix(".py")
        seen[name] = command[2:-2]
        if name == "update":
            return SimpleNamespace(returncode=1, stderr="Traceback\nValueError: no BLAS\n")
        with open(command[-1], "w") as file:
            json.dump(FOUND[name], file)
        return SimpleNamespace(returncode=0, stderr="")

    monkeypatch.setattr(run_all, "subprocess", SimpleNamespace(run=run))
    monkeypatch.setattr("sys.argv", ["run_all.py", "--json", str(tmp_path / "all.json")])
    return seen


def test_everything_runs_and_a_failure_is_named(commands, tmp_path, capsys):
    assert run_all.main() == 1
    assert list(commands) == ["collection", "streams", "update", "end_to_end", "scaling"]
    out = capsys.readouterr().out
    assert "update failed: ValueError: no BLAS" in out
    for value in (
        "250.00 µs",
        "skipped: gymnasium is not installed",
        "skipped: not installed",
        "2,000,000 decisions/s",
        "7,000 decisions/s",
        "exponent 0.98",
        "50 MB, predicted 34",
    ):
        assert value in out
    written = json.loads((tmp_path / "all.json").read_text())
    assert set(written["results"]) == set(FOUND)
    assert written["machine"]["torch"]
    assert written["results"]["streams"]["found"] == FOUND["streams"]


def test_the_options_are_those_of_the_benchmarks():
    for name, benchmark in run_all.BENCHMARKS.items():
        source = (run_all.ROOT / "benchmarks" / f"{name}.py").read_text(encoding="utf-8")
        for option in [*benchmark.arguments, "--json"]:
            assert not option.startswith("--") or f'add_argument("{option}"' in source, (name, option)


def test_collection_with_onnx_has_its_ratio():
    found = {**FOUND["collection"], "onnx_us_per_decision": 150.0, "onnx_ratio": 60.0}
    assert run_all.collection(found)[-2:] == [("onnx, a decision", "150.00 µs"), ("onnx / fused", "60.0")]
