"""TensorBoard's file: what it holds, and that a run goes on without it."""

import shutil
import threading

import pytest

pytest.importorskip("pydantic")
pytest.importorskip("tensorboard")

from longstride.training.run_directory.metrics_log import TensorBoardLog


def test_its_file_holds_the_figures(tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    said = []
    board = TensorBoardLog(tmp_path / "tensorboard", 0, said.append)
    for episode in (1, 2):
        board.write([("return", episode / 2), ("metrics/cash", 7.0)], episode)
    board.close()
    events = EventAccumulator(str(tmp_path / "tensorboard")).Reload()
    assert [(event.step, event.value) for event in events.Scalars("return")] == [(1, 0.5), (2, 1.0)]
    assert said == []


def remove(folder):
    """Remove a folder, again where the writer's thread has just made a file in it."""
    while folder.exists():
        shutil.rmtree(folder, ignore_errors=True)


def test_a_file_that_cannot_be_written_is_said_once_without_a_traceback(tmp_path, capfd):
    said, hook = [], threading.excepthook
    board = TensorBoardLog(tmp_path / "tensorboard", 0, said.append)
    board.write([("return", 0.5)], 1)
    remove(tmp_path / "tensorboard")
    (tmp_path / "tensorboard").write_text("in its place")
    board.close()
    board.write([("return", 0.5)], 2)
    board.close()
    (sentence,) = said
    assert sentence.startswith("Cannot write tensorboard/: ")
    assert sentence.endswith(". The run continues without; metrics.jsonl has the same.")
    assert "Traceback" not in capfd.readouterr().err
    assert threading.excepthook is hook


def test_errors_of_other_threads_are_reported_as_before(tmp_path, monkeypatch):
    reported = []
    monkeypatch.setattr(threading, "excepthook", lambda arguments: reported.append(arguments.exc_value))
    board = TensorBoardLog(tmp_path / "tensorboard", 0, print)
    thread = threading.Thread(target=lambda: 1 / 0)
    thread.start()
    thread.join()
    board.close()
    assert [type(error) for error in reported] == [ZeroDivisionError]
