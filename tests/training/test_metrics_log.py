"""metrics.jsonl: what is kept after a resume, and scalars for TensorBoard."""

import json

import pytest

from core.errors import UserError
from core.training.metrics import MetricsLog, read_metrics, scalars


@pytest.fixture(autouse=True)
def no_tensorboard(monkeypatch):
    """Its import takes seconds and these tests are about the file."""
    monkeypatch.setattr(MetricsLog, "_open_board", lambda *_: None)


def write(directory, episodes, after=0):
    log = MetricsLog(directory, after)
    for episode in episodes:
        log.write({"episode": episode, "return": episode / 2})
    log.close()


def test_lines_are_json_and_appended(tmp_path):
    write(tmp_path, [1, 2])
    lines = (tmp_path / "metrics.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in lines] == [{"episode": 1, "return": 0.5}, {"episode": 2, "return": 1.0}]


def test_lines_after_the_checkpoint_are_dropped_on_resume(tmp_path):
    write(tmp_path, [1, 2, 3])
    write(tmp_path, [3, 4], after=2)
    assert [r["episode"] for r in read_metrics(tmp_path)] == [1, 2, 3, 4]


def test_a_last_line_that_was_cut_is_ignored_and_dropped_on_resume(tmp_path):
    write(tmp_path, [1, 2])
    path = tmp_path / "metrics.jsonl"
    path.write_text(path.read_text()[:-8])
    assert [r["episode"] for r in read_metrics(tmp_path)] == [1]
    write(tmp_path, [2], after=2)
    assert [r["episode"] for r in read_metrics(tmp_path)] == [1, 2]
    assert path.read_text().count("\n") == 2


@pytest.mark.parametrize("tail", ["17\n", "null\n", '{"no": "episode"}\n', "\x00\x00\n"])
def test_a_line_that_is_no_record_ends_the_reading(tmp_path, tail):
    write(tmp_path, [1])
    with (tmp_path / "metrics.jsonl").open("a") as file:
        file.write(tail)
    assert [r["episode"] for r in read_metrics(tmp_path)] == [1]


def test_no_file_is_no_records(tmp_path):
    assert read_metrics(tmp_path) == []


def test_a_log_that_cannot_be_written(tmp_path):
    (tmp_path / "metrics.jsonl").mkdir()
    with pytest.raises((UserError, OSError)):
        write(tmp_path, [1])


def test_scalars_are_the_numbers_with_their_path():
    record = {"episode": 3, "precision": "fp32", "ok": True, "metrics": {"cash": 1.5, "kinds": [1, 2]}}
    assert dict(scalars(record)) == {"episode": 3.0, "metrics/cash": 1.5}
