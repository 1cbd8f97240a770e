"""Settings that earlier versions had, in files, flags, Python and run directories."""

import json

import pytest

pytest.importorskip("pydantic")

from longstride.commands.sweep.space import read_space
from longstride.config import Config
from longstride.errors import UserError
from longstride.setting_flags import Parser, add_flags
from longstride.setting_groups.former import REMOVED
from longstride.settings import load_settings
from longstride.training.assembly.resumed_settings import resumed_settings
from longstride.training.assembly.run_settings import settings_of_a_run

OTHER = {
    "group_method": "branch",
    "rollout_wire": "actions",
    "value_clip_range": 0.2,
    "average_reward": True,
}
"""Values that ask for something that this version does not offer."""

SILENT = [(name, value) for name, removed in REMOVED.items() for value in removed.without_effect or (7, "x")]


@pytest.fixture
def hyperparameters(tmp_path):
    """Return a function that writes a hyperparameters file."""

    def write(values):
        file = tmp_path / "hyperparameters.py"
        file.write_text("".join(f"{name.upper()} = {value!r}\n" for name, value in values.items()))
        return file

    return write


@pytest.fixture
def old_run(tmp_path):
    """Return a function that makes the config.json of a run with further settings, and its directory."""

    def write(values):
        (tmp_path / "config.json").write_text(json.dumps({"values": {"gamma": 0.9, **values}, "sources": {}}))
        return {"run_directory": str(tmp_path)}

    return write


def test_no_setting_is_both_here_and_removed():
    assert not REMOVED.keys() & Config.model_fields.keys()
    assert OTHER.keys() == {name for name, removed in REMOVED.items() if removed.without_effect}


@pytest.mark.parametrize(("name", "value"), SILENT)
def test_what_asks_for_nothing_is_left_out_silently(name, value, hyperparameters, old_run):
    assert Config(**{name: value}) == Config()
    settings = load_settings(hyperparameters({name: value, "gamma": 0.9}), {})
    assert settings.config == Config(gamma=0.9)
    assert name not in settings.sources
    flags = old_run({name: value})
    resumed = resumed_settings(load_settings(None, flags))
    assert (resumed.config, resumed.notes) == (Config(gamma=0.9, **flags), ())
    assert settings_of_a_run(load_settings(None, flags)).config == Config(gamma=0.9, **flags)


@pytest.mark.parametrize(("name", "value"), OTHER.items())
def test_what_asks_for_something_gets_one_sentence(name, value, hyperparameters, old_run):
    reason = f" is {value!r}, which this version does not offer any more: {REMOVED[name].now}"
    with pytest.raises(UserError) as error:
        Config(**{name: value})
    assert str(error.value) == f"{name}{reason}; leave it out."
    file = hyperparameters({name: value})
    with pytest.raises(UserError) as error:
        load_settings(file, {})
    assert str(error.value) == f"{file}: {name.upper()}{reason}; leave it out."
    flags = old_run({name: value})
    resumed = resumed_settings(load_settings(None, flags))
    assert resumed.config == Config(gamma=0.9, **flags)
    config = f"{flags['run_directory']}/config.json: {name.upper()}"
    assert resumed.notes == (f"{config}{reason}. The run continues without it.",)


@pytest.mark.parametrize("name", REMOVED)
def test_a_removed_flag_gets_one_sentence(name):
    parser, flag = Parser(), f"--{name.replace('_', '-')}"
    add_flags(parser)
    for given in ([flag, "x"], [f"{flag}=x"], [f"--no-{flag.removeprefix('--')}"]):
        with pytest.raises(UserError) as error:
            parser.parse_known_flags(given)
        assert str(error.value) == f"{given[0]}: this version has no such setting any more: {REMOVED[name].now}."
    with pytest.raises(UserError, match=f"^--sweep: {name}: this version has no such setting any more: "):
        read_space([f"{name}=1,2"], None)
