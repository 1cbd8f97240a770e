"""The table of settings in a report: where a value comes from is said in words."""

import re
from pathlib import Path

import pytest

pytest.importorskip("pydantic")

from core.report.page import Table
from core.report.run_data import RunData
from core.report.settings import settings_section

REFERENCE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "run-directory.md"


def test_every_origin_of_a_setting_has_words():
    (line,) = [line for line in REFERENCE.read_text(encoding="utf-8").splitlines() if line.startswith("| `sources`")]
    origins = re.findall(r"`([a-z_]+)`", line.partition("for each one")[2])
    assert "simulation" in origins
    values = {f"setting_{origin}": 1 for origin in origins}
    sources = {f"setting_{origin}": origin for origin in origins}
    run = RunData(Path("run"), [], values, sources, {}, {}, None, {})
    (table,) = settings_section(run, dict.fromkeys(values, 0)).blocks
    assert isinstance(table, Table)
    assert all(row[-1].text for row in table.rows), table.rows
