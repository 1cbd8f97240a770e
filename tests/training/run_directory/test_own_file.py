"""metrics.jsonl that another program removes, replaces or cuts while a run writes it."""

import json
import os

import pytest

pytest.importorskip("pydantic")

from longstride.errors import NotSavedError
from longstride.training.run_directory.checkpoint_writer import WriteRetry
from longstride.training.run_directory.kept_files import KeptFiles
from longstride.training.run_directory.metrics_log import MetricsLog, read_metrics

pytestmark = pytest.mark.skipif(os.name != "posix", reason="removes open files")


@pytest.fixture
def run(tmp_path):
    """Return a directory, the log of a run with three iterations in it, and what tries again."""
    retry = WriteRetry()
    log = MetricsLog(tmp_path, 0, retry)
    for iteration in range(1, 4):
        log.write(record(iteration))
    yield tmp_path, log, retry
    log.close()


def record(iteration):
    return {"iteration": iteration, "return": 0.5, "metrics": {}}


def iterations(directory):
    return [json.loads(line)["iteration"] for line in (directory / "metrics.jsonl").read_bytes().splitlines()]


def test_a_file_that_was_removed_is_written_again_as_a_whole(run):
    directory, log, retry = run
    (directory / "metrics.jsonl").unlink()
    log.write(record(4))
    assert iterations(directory) == [1, 2, 3, 4]
    sentence = "metrics.jsonl was removed by another program; it is written again, and nothing is missing in it."
    assert list(retry.lines()) == [sentence]
    log.write(record(5))
    assert iterations(directory) == [1, 2, 3, 4, 5]
    assert not list(retry.lines())
    retry.require_all(directory, 5)


def test_a_file_that_was_removed_after_the_last_iteration_is_written_again(run):
    directory = run[0] / "another"
    directory.mkdir()
    log = MetricsLog(directory, 0)
    log.write(record(1))
    (directory / "metrics.jsonl").unlink()
    log.close()
    assert iterations(directory) == [1]


@pytest.mark.parametrize("kind", ["file", "link"])
def test_a_file_that_was_replaced_is_written_again_and_the_other_one_kept(run, kind):
    directory, log, retry = run
    other = directory / "other"
    other.write_text("somebody's\n")
    (directory / "metrics.jsonl").unlink()
    if kind == "link":
        (directory / "metrics.jsonl").symlink_to(other)
    else:
        os.replace(other, directory / "metrics.jsonl")
    log.write(record(4))
    assert iterations(directory) == [1, 2, 3, 4]
    assert not (directory / "metrics.jsonl").is_symlink()
    assert (directory / "metrics.jsonl.replaced-1").read_text() == "somebody's\n"
    assert "replaced by another file, which is now metrics.jsonl.replaced-1; it is written" in "".join(retry.lines())


def test_a_file_that_was_cut_goes_on_and_is_an_error_at_the_end(run):
    directory, log, retry = run
    size = len((directory / "metrics.jsonl").read_bytes())
    os.truncate(directory / "metrics.jsonl", 0)
    log.write(record(4))
    assert iterations(directory) == [4]
    (line,) = retry.lines()
    assert line.startswith(f"metrics.jsonl is not complete: another program cut off {size} of its bytes. Training")
    with pytest.raises(NotSavedError, match=r"metrics\.jsonl \(another program cut off .* checkpoint of iteration 4 "):
        retry.require_all(directory, 4)


def test_what_another_program_appends_stays(run):
    directory, log, _ = run
    with (directory / "metrics.jsonl").open("a") as file:
        file.write("a note\n")
    log.write(record(4))
    lines = (directory / "metrics.jsonl").read_text().splitlines()
    assert lines[3] == "a note"
    assert [each["iteration"] for each in read_metrics(directory)] == [1, 2, 3, 4]


def test_other_files_that_vanish_are_written_again(tmp_path):
    (tmp_path / "config.json").write_text("{}")
    retry = WriteRetry()
    kept = KeptFiles([tmp_path / "config.json", tmp_path / "scenario.json"], retry)
    (tmp_path / "config.json").unlink()
    kept.restore()
    assert (tmp_path / "config.json").read_text() == "{}"
    assert not (tmp_path / "scenario.json").exists(), "it was not there before"
    assert list(retry.lines()) == ["config.json was removed by another program; it is written again."]
    (tmp_path / "config.json").write_text("changed by a person")
    kept.restore()
    assert (tmp_path / "config.json").read_text() == "changed by a person"
