"""The table of settings in a report: where a value comes from is said in words."""

import re
from pathlib import Path

import pytest

pytest.importorskip("pydantic")

from longstride.report.page import Table, Text
from longstride.report.run_data import RunData
from longstride.report.settings import reproduction_section, settings_section

REFERENCE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "run-directory.md"


def test_every_origin_of_a_setting_has_words():
    (line,) = [line for line in REFERENCE.read_text(encoding="utf-8").splitlines() if line.startswith("| `sources`")]
    origins = re.findall(r"`([a-z_]+)`", line.partition("source of each value")[2])
    assert "simulation" in origins
    values = {f"setting_{origin}": 1 for origin in origins}
    sources = {f"setting_{origin}": origin for origin in origins}
    run = RunData(Path("run"), [], values, sources, {}, {}, None, {})
    (table,) = settings_section(run, dict.fromkeys(values, 0)).blocks
    assert isinstance(table, Table)
    assert all(row[-1].text for row in table.rows), table.rows


def test_a_command_that_cannot_repeat_a_resumed_run_says_so():
    resumed = [{"after_iteration": 4, "before": {"training_episodes": 4, "learning_rate_actor": 3e-4}}]
    for given, expected in (([], False), (resumed, True)):
        run = RunData(Path("run"), [{}], {"seed": 0}, {}, {}, {}, None, {}, resumed=given)
        texts = [block for block in reproduction_section(run, "train", {}).blocks if isinstance(block, Text)]
        said = "TRAINING_EPISODES 4, LEARNING_RATE_ACTOR 0.0003 until iteration 4."
        assert any(said in line for text in texts for line in text.sentences) is expected
