"""Settings that a run cannot use: a flag for processes is refused, and a line names the others."""

import pytest

pytest.importorskip("pydantic")

from longstride.errors import UserError
from longstride.settings import load_settings
from longstride.training.assembly.run import build_run
from longstride.training.assembly.run_settings import simulator_for
from longstride.training.run_directory.metrics_log import MetricsLog
from longstride.training.trainer import Trainer


def remarks_with(tmp_path, text, flags):
    file = tmp_path / "settings.py"
    file.write_text(text)
    settings = load_settings(file, flags)
    return list(simulator_for(settings).remarks)


@pytest.mark.parametrize("flag", [{"due": "2 days"}, {"event_log": "no.csv"}, {"late_cases": "last"}])
def test_a_flag_for_processes_is_refused_for_another_simulator(tmp_path, flag):
    name = next(iter(flag)).upper()
    sentence = f"^{name} is for processes, and cartpole is none; leave it out, or choose the simulator process.$"
    with pytest.raises(UserError, match=sentence):
        remarks_with(tmp_path, "", {"simulator": "cartpole", **flag})


def test_a_line_names_those_of_a_file_that_are_not_used(tmp_path):
    text = 'SIMULATOR = "cartpole"\nDUE = "2 days"\nCOST = "40"\nLOG_ARRIVALS = "weekly"\n'
    assert remarks_with(tmp_path, text, {}) == ["Settings that only a process has, not used: DUE, COST."]


def test_a_process_uses_them(tmp_path):
    assert remarks_with(tmp_path, 'DUE = "2 days"\n', {"late_cases": "last"}) == []
    assert remarks_with(tmp_path, 'SIMULATOR = "cartpole"\n', {}) == []


@pytest.mark.parametrize(
    ("values", "line"),
    [
        ({"simulator": "pendulum", "entropy_target": "0.9"}, "ENTROPY_TARGET has"),
        (
            {"policy_network": "mingru", "exploring_starts": "0.5", "outcome_draws": "32"},
            "EXPLORING_STARTS, OUTCOME_DRAWS have",
        ),
        ({"num_envs": "4", "outcome_draws": "2", "entropy_target": "0.2"}, "OUTCOME_DRAWS has"),
        ({"entropy_target": "0.2", "exploring_starts": "0.5", "outcome_draws": "2"}, None),
        ({"policy_network": "mingru"}, None),
        ({"policy_network": "mingru", "exploring_starts": "0"}, None),
    ],
)
def test_a_line_names_settings_of_exploration_that_a_run_cannot_use(tmp_path, monkeypatch, values, line):
    monkeypatch.setattr(Trainer, "compile", lambda trainer: 0.0)
    monkeypatch.setattr(MetricsLog, "_open_board", lambda *_: None)
    flags, said = {"simulator": "lost_sales", **values, "run_directory": str(tmp_path / "run"), "device": "cpu"}, []
    build_run(load_settings(None, flags), False, said.append)
    found = [each for each in said if "no effect" in each]
    assert found == ([f"{line} no effect in this run; docs/explanation/defaults.md says where."] if line else [])
