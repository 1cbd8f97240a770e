"""hyperparameters.py as it is shipped."""

import re
from pathlib import Path

import pytest

pytest.importorskip("pydantic")

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


def test_the_config_cannot_be_changed():
    with pytest.raises(ValueError, match="frozen"):
        Config().gamma = 0.5
