"""metrics.jsonl: what is kept after a resume, and scalars for TensorBoard."""

import errno
import json
from types import SimpleNamespace

import pytest

pytest.importorskip("pydantic")

from longstride.errors import UserError
from longstride.training.run_directory.checkpoint_writer import WriteRetry
from longstride.training.run_directory.metrics_log import MetricsLog, NewRecords, read_metrics, scalars


@pytest.fixture(autouse=True)
def no_tensorboard(monkeypatch):
    """Its import takes seconds and these tests are about the file."""
    monkeypatch.setattr(MetricsLog, "_open_board", lambda *_: None)


def write(directory, episodes, after=0):
    log = MetricsLog(directory, after)
    for iteration in episodes:
        log.write({"iteration": iteration, "return": iteration / 2})
    log.close()


def test_lines_are_json_and_appended(tmp_path):
    write(tmp_path, [1, 2])
    lines = (tmp_path / "metrics.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in lines] == [{"iteration": 1, "return": 0.5}, {"iteration": 2, "return": 1.0}]


def test_what_is_appended_is_read_once_and_whole(tmp_path):
    new, file = NewRecords(tmp_path), tmp_path / "metrics.jsonl"

    def iterations():
        return [record["iteration"] for record in new.read()]

    assert iterations() == []
    write(tmp_path, [1, 2])
    with file.open("a") as appended:
        appended.write('{"iteration": 3, "ret')
    assert iterations() == [1, 2]
    with file.open("a") as appended:
        appended.write('urn": 1.5}\nno JSON\n')
    assert iterations() == [3]
    assert iterations() == []
    write(tmp_path, [3, 4, 5], after=2)
    assert iterations() == [1, 2, 3, 4, 5], "a resume replaces the file"


def test_lines_after_the_checkpoint_are_dropped_on_resume(tmp_path):
    write(tmp_path, [1, 2, 3])
    write(tmp_path, [3, 4], after=2)
    assert [r["iteration"] for r in read_metrics(tmp_path)] == [1, 2, 3, 4]


def test_a_last_line_that_was_cut_is_ignored_and_dropped_on_resume(tmp_path):
    write(tmp_path, [1, 2])
    path = tmp_path / "metrics.jsonl"
    path.write_text(path.read_text()[:-8])
    assert [r["iteration"] for r in read_metrics(tmp_path)] == [1]
    write(tmp_path, [2], after=2)
    assert [r["iteration"] for r in read_metrics(tmp_path)] == [1, 2]
    assert path.read_text().count("\n") == 2


@pytest.mark.parametrize("tail", ["17\n", "null\n", '{"no": "iteration"}\n', "\x00\x00\n"])
def test_a_line_that_is_no_record_ends_the_reading(tmp_path, tail):
    write(tmp_path, [1])
    with (tmp_path / "metrics.jsonl").open("a") as file:
        file.write(tail)
    assert [r["iteration"] for r in read_metrics(tmp_path)] == [1]


def test_a_damaged_line_costs_itself_alone(tmp_path):
    write(tmp_path, [1, 2, 3, 4])
    path = tmp_path / "metrics.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(lines[0] + b"\xff" + lines[1][1:] + b'{"iteration": "3"}\n' + lines[3])
    assert [r["iteration"] for r in read_metrics(tmp_path)] == [1, 4]
    write(tmp_path, [5], after=4)
    assert [r["iteration"] for r in read_metrics(tmp_path)] == [1, 4, 5]


class FullDisk:
    """A metrics.jsonl that takes some bytes of what is written and then no more."""

    def __init__(self, log, room):
        self.room, file = room, log._file._file
        others = {name: getattr(file, name) for name in ("truncate", "seek", "fileno", "read", "close")}
        log._file._file = SimpleNamespace(write=lambda content: self.some(file, content), **others)

    def some(self, file, content):
        if self.room <= 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        written = file.write(content[: self.room])
        self.room -= written
        return written


@pytest.mark.parametrize("room", [0, 1, 20, 29])
def test_lines_that_do_not_fit_wait_and_leave_nothing_behind(tmp_path, room):
    """A line has 30 bytes; what was written of it before it failed must not be there in the end."""
    saving = WriteRetry()
    log = MetricsLog(tmp_path, 0, saving)
    log.write({"iteration": 1, "return": 0.5})
    disk = FullDisk(log, room)
    for iteration in (2, 3, 4):
        log.write({"iteration": iteration, "return": 0.5})
    assert len(list(saving.lines())) == 1
    assert [r["iteration"] for r in read_metrics(tmp_path)][:1] == [1]
    disk.room = 10**9
    log.write({"iteration": 5, "return": 0.5})
    log.close()
    assert list(saving.lines()) == ["metrics.jsonl is written again, with everything that was missing."]
    lines = (tmp_path / "metrics.jsonl").read_text().splitlines()
    assert [json.loads(line)["iteration"] for line in lines] == [1, 2, 3, 4, 5]


def test_the_end_is_the_last_attempt(tmp_path):
    saving = WriteRetry()
    log = MetricsLog(tmp_path, 0, saving)
    disk = FullDisk(log, 0)
    log.write({"iteration": 1})
    disk.room = 10**9
    log.close()
    saving.require_all(tmp_path, 0)
    assert [r["iteration"] for r in read_metrics(tmp_path)] == [1]


def test_no_file_is_no_records(tmp_path):
    assert read_metrics(tmp_path) == []


def test_a_log_that_cannot_be_written(tmp_path):
    (tmp_path / "metrics.jsonl").mkdir()
    with pytest.raises((UserError, OSError)):
        write(tmp_path, [1])


def test_scalars_are_the_numbers_with_their_path():
    record = {"iteration": 3, "precision": "fp32", "ok": True, "metrics": {"cash": 1.5, "kinds": [1, 2]}}
    assert dict(scalars(record)) == {"iteration": 3.0, "metrics/cash": 1.5}
