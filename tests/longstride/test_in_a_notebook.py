"""Training and evaluation in a notebook; needs nbclient and ipykernel, and skips without them."""

import os
from pathlib import Path

import pytest

import longstride

nbformat = pytest.importorskip("nbformat")
nbclient = pytest.importorskip("nbclient")
pytest.importorskip("ipykernel")

SIMULATOR = """
import numpy as np
from longstride import Discrete, Hyperparameters, Simulator, evaluate, load_policy, train

class Guess(Simulator):
    observation_size, action_space, max_steps = 1, Discrete(2), 50
    state_dtype = np.dtype([("side", np.int64)])

    def reset(state, parameters, rng):
        state.side = rng.random() < 0.5

    def observe(state, parameters, observation):
        observation[0] = state.side

    def step(state, parameters, action, rng):
        reward = 1.0 if action == state.side else 0.0
        state.side = rng.random() < 0.5
        return reward, False

settings = {"actor_hidden_size": 8, "critic_hidden_size": 8, "num_hidden_layers": 1, "num_envs": 4}
"""
INTERRUPTED = """
import os, pathlib, signal, threading, time

def interrupt():
    while not pathlib.Path("runs/second/metrics.jsonl").exists():
        time.sleep(0.01)
    os.kill(os.getpid(), signal.SIGINT)

threading.Thread(target=interrupt).start()
train(Guess(), Hyperparameters(training_episodes=100_000, **settings), run_directory="runs/second").completed
"""
CELLS = [
    SIMULATOR,
    'run = train(Guess(), Hyperparameters(training_episodes=5, device="cpu", **settings))\nrun',
    "evaluate(run, episodes=2)",
    INTERRUPTED,
    'load_policy("runs/guess").act([1.0]) in (0, 1)',
]


@pytest.fixture(scope="module")
def cells(tmp_path_factory):
    """Run the notebook in a kernel of its own; return its cells."""
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in CELLS])
    folder = tmp_path_factory.mktemp("notebook")
    client = nbclient.NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(folder)}})
    source = str(Path(longstride.__file__).parents[1])
    client.execute(env={**os.environ, "PYTHONPATH": os.pathsep.join([source, os.environ.get("PYTHONPATH", "")])})
    return notebook.cells


def texts(cell, kind):
    """Return the texts of a cell's outputs of a kind."""
    outputs = [output for output in cell.outputs if output.output_type == kind]
    return [output["text"] if kind == "stream" else output["data"]["text/plain"] for output in outputs]


@pytest.mark.slow
def test_training_shows_one_table_that_ends_with_the_last_iteration(cells):
    (table,) = texts(cells[1], "display_data")
    assert "5/5" in table
    assert "return" in table
    assert texts(cells[1], "execute_result")[0].startswith("TrainingRun(directory=")
    lines = "".join(texts(cells[1], "stream"))
    assert "Trained 5 iterations; everything is in runs/guess." in lines
    assert "left" not in lines, "figures of an iteration are in the table"


def test_an_evaluation_is_a_table_too(cells):
    (result,) = (output for output in cells[2].outputs if output.output_type == "execute_result")
    assert "<td" in result["data"]["text/html"]
    assert "trained_sampled" in result["data"]["text/plain"]
    assert texts(cells[2], "display_data") == []


def test_the_stop_button_ends_a_run_in_order(cells):
    assert texts(cells[3], "execute_result") == ["False"]
    assert "saved in runs/second; resume=True continues the run." in "".join(texts(cells[3], "stream"))
    assert texts(cells[4], "execute_result") == ["True"]
