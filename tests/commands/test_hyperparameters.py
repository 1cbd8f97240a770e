"""hyperparameters.py as it is shipped."""

import re
from pathlib import Path

import pytest

pytest.importorskip("pydantic")

from longstride.cli import main
from longstride.commands.init.text import settings_text
from longstride.config import Config
from longstride.settings import load_settings

FILE = Path(__file__).resolve().parents[2] / "hyperparameters.py"
ASSIGNMENT = re.compile(r"([A-Z][A-Z0-9_]*) = ")


def test_values_are_the_defaults_of_config():
    settings = load_settings(FILE, {})
    assert settings.config == Config()
    assert set(settings.sources.values()) == {"file"}, "every name is in the file"


def test_every_name_has_a_comment_above_it():
    """Names in consecutive lines share the comment above the first."""
    commented, names = False, []
    for line in FILE.read_text(encoding="utf-8").splitlines():
        if match := ASSIGNMENT.match(line):
            assert commented, f"{match[1]} has no comment"
            names.append(match[1])
        else:
            commented = line.startswith("# ") and not line.startswith("# ---")
    assert [name.lower() for name in names] == list(Config.model_fields), "in the order of Config"


def test_sections_are_the_groups_of_the_help(capsys):
    with pytest.raises(SystemExit):
        main(["train", "--help"])
    groups = re.findall(r"^(settings of [a-z ]+):$", capsys.readouterr().out, flags=re.M)
    sections = re.findall(r"^# -{80} (.*)$", settings_text(Config()), flags=re.M)
    assert len(groups) > 4 and set(groups) <= set(sections)


def test_the_file_is_what_init_writes(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["init"]) == 0
    assert Path("hyperparameters.py").read_text(encoding="utf-8") == FILE.read_text(encoding="utf-8")
    assert main(["init", "--gamma", "0.9", "--simulator-option", "name=a \\ b", "--output", "other.py"]) == 0
    config = load_settings(Path("other.py"), {}).config
    assert (config.gamma, config.simulator_options) == (0.9, {"name": "a \\ b"})
    capsys.readouterr()
    assert main(["init"]) == 2
    assert capsys.readouterr().err == (
        "error: hyperparameters.py already exists; choose another file with --output FILE, or move it away.\n"
    )


def test_the_config_cannot_be_changed():
    with pytest.raises(ValueError, match="frozen"):
        Config().gamma = 0.5
