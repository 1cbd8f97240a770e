"""The notebooks of docs/tutorials run from their first cell to their last, with shorter trainings."""

import json
import os
from pathlib import Path

import pytest

import longstride

pytestmark = pytest.mark.slow

nbformat = pytest.importorskip("nbformat")
nbclient = pytest.importorskip("nbclient")
for package in ("ipykernel", "matplotlib", "pandas"):
    pytest.importorskip(package)

NOTEBOOKS = Path(__file__).resolve().parents[2] / "docs" / "tutorials"
SMALL = "num_envs=2, update_execution='eager', training_episodes=EPISODES"  # nothing to compile in the update
SHORT = {
    "TUTORIAL_EPISODES": "1",
    "TUTORIAL_EVALUATION": "2",
    "MPLBACKEND": "module://matplotlib_inline.backend_inline",
}


def read(name):
    return nbformat.read(NOTEBOOKS / f"{name}.ipynb", 4)


def text_of(notebook):
    """Return everything that a notebook's cells have printed or returned."""
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", ())]
    return "\n".join(output.get("text") or output["data"].get("text/plain", "") for output in outputs)


def run(name, folder, **changes):
    """Run a notebook in a kernel of its own, in a folder, with other pieces of code; return what it printed."""
    notebook = read(name)
    for old, new in {"training_episodes=EPISODES": SMALL, **changes}.items():
        (cell,) = [cell for cell in notebook.cells if old in cell.source and cell.cell_type == "code"]
        cell.source = cell.source.replace(old, new)
    client = nbclient.NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(folder)}})
    path = os.pathsep.join([str(Path(longstride.__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    client.execute(env={**os.environ, **SHORT, "PYTHONPATH": path})
    return text_of(notebook)


def pictures(notebook):
    return sum("image/png" in output.get("data", {}) for cell in notebook.cells for output in cell.get("outputs", ()))


def test_from_a_simulator_to_a_policy(tmp_path):
    printed = run("own_simulator", tmp_path)
    assert "\n[]\n" in f"\n{printed}\n", "the check finds nothing"
    assert "Trained " in printed and "untrained" in printed and "optimum" in printed
    assert "The same action as the optimum in " in printed
    assert (tmp_path / "runs" / "workshop" / "config.json").exists()


def test_from_a_log_to_a_decision(tmp_path):
    printed = run("log_to_decision", tmp_path, **{"evaluate(run)": "evaluate(run, policies=['logged', 'spt'])"})
    assert "1,174 events, 300 cases, 8 people, 5 activities" in printed
    assert "trained: saves " in printed and "spt: saves " in printed
    settings = json.loads((tmp_path / "runs" / "log" / "config.json").read_text())["values"]
    assert settings["event_log"].endswith("loan_desk_sample.csv")


@pytest.mark.parametrize(("name", "number"), [("own_simulator", 2), ("log_to_decision", 1)])
def test_a_notebook_is_shipped_as_it_ran(name, number):
    notebook = read(name)
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1)), "from the first to the last"
    assert pictures(notebook) == number
    kinds = {output.output_type for cell in cells for output in cell.outputs}
    assert "error" not in kinds
    assert not any(output.get("name") == "stderr" for cell in cells for output in cell.outputs)
    content = (NOTEBOOKS / f"{name}.ipynb").read_text(encoding="utf-8")
    assert len(content) < 300_000
    assert f"{os.sep}tmp{os.sep}" not in content and "/home/" not in content, "no machine's paths"
