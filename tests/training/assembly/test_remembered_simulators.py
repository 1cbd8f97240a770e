"""The simulators that a user has trained on are remembered, so many of those that came last."""

import json

import pytest

pytest.importorskip("pydantic")

from longstride.simulators.source_files import SOURCE_SHA256
from longstride.training.assembly import simulator_trust
from longstride.training.assembly.simulator_trust import STATE, remember_simulator


def test_what_was_trained_on_last_is_forgotten_last(tmp_path, monkeypatch):
    """Also if the user trained on it long ago for the first time."""
    monkeypatch.setenv(STATE, str(tmp_path))
    monkeypatch.setattr(simulator_trust, "_KEPT", 2)
    names = [f"{name}.py" for name in "abc"]
    for name in names:
        (tmp_path / name).touch()
    for name, digest in zip([*names[:2], names[0], names[2]], ("1", "2", "3", "4"), strict=True):
        remember_simulator({"simulator": f"{tmp_path / name}:Mine", SOURCE_SHA256: digest})
    known = json.loads((tmp_path / "simulators.json").read_text())["simulators"]
    assert known == {str((tmp_path / "a.py").resolve()): "3", str((tmp_path / "c.py").resolve()): "4"}
