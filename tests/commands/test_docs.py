"""The examples of the documentation do what they say."""

import json
import re
from pathlib import Path

import pytest

pytest.importorskip("pydantic")

from core.commands import main
from core.simulators.process.scenario import parse_scenario

DOCS = Path(__file__).resolve().parents[2] / "docs"


def block(name, language):
    return re.search(rf"```{language}\n(.*?)```", (DOCS / name).read_text(), re.DOTALL).group(1)


def test_the_shop_trains_and_is_evaluated(tmp_path, capsys):
    (tmp_path / "shop.py").write_text(block("simulators.md", "python"))
    run = str(tmp_path / "run")
    flags = ["--simulator", f"{tmp_path / 'shop.py'}:Shop", "--training-episodes", "1", "--episodes-per-update", "1"]
    assert main(["--mode", "train", *flags, "--run-directory", run]) == 0
    assert main(["--mode", "evaluate", "--checkpoint", run, "--evaluation-episodes", "2"]) == 0
    policies = json.loads((tmp_path / "run" / "evaluation.json").read_text())["policies"]
    assert list(policies) == ["trained", "trained_sampled", "order_up_to_12"]


def test_the_scenario_of_the_documentation_is_one():
    assert parse_scenario(json.loads(block("process.md", "json")), "docs").name == "two_desks"
