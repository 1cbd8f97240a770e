"""Settings that only a process has, with another simulator: a flag is refused, and a line names those of a file."""

import pytest

pytest.importorskip("pydantic")

from longstride.errors import UserError
from longstride.settings import load_settings
from longstride.training.assembly.run_settings import simulator_for


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
