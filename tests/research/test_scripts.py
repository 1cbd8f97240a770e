"""Each script of research/ still runs: it is imported with all that it needs, and knows its own options."""

import importlib
import runpy
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FILES = sorted(path.relative_to(ROOT) for path in (ROOT / "research").rglob("*.py"))
COMMANDS = [path for path in FILES if path.parent.name != "peers" and "__main__" in (ROOT / path).read_text()]


@pytest.mark.parametrize("path", [path for path in FILES if path not in COMMANDS], ids=str)
def test_a_module_can_be_imported(path):
    if "stable_baselines" in path.name:
        pytest.importorskip("stable_baselines3")
    importlib.import_module(".".join(path.with_suffix("").parts))


def test_every_command_and_table_is_in_the_index():
    index = (ROOT / "research" / "README.md").read_text(encoding="utf-8")
    tables = [path.relative_to(ROOT) for path in (ROOT / "research").glob("*/*.md")]
    for path in [*COMMANDS, *tables]:
        assert path.relative_to("research").as_posix() in index


@pytest.mark.parametrize("path", COMMANDS, ids=str)
def test_a_command_knows_its_options(path, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", [str(path), "--help"])
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(ROOT / path), run_name="__main__")
    assert ended.value.code == 0
    assert "usage: " in capsys.readouterr().out
