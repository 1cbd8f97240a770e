"""The examples of the documentation do what they say."""

import json
import re
import shlex
from pathlib import Path

import pytest

pytest.importorskip("pydantic")

from core.commands.cli import main
from core.simulators.process.scenario_file import parse_scenario

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"


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


def test_every_command_of_the_list_of_oracles_runs_tests_that_are_there():
    text = (DOCS / "correctness.md").read_text(encoding="utf-8")
    commands = [shlex.split(command) for command in re.findall(r"`(\.venv/bin/[^`]*)`", text)]
    rows = [line for line in text.splitlines() if line.startswith("| ") and "| oracle |" not in line]
    assert len(commands) == len(rows) > 20, "one in each row"
    for command in commands:
        assert command[:3] == [".venv/bin/python", "-m", "pytest"]
        assert command[3:]
        for path in command[3:]:
            assert path.startswith("tests/")
            assert "\ndef test_" in (ROOT / path).read_text(encoding="utf-8"), path
    assert "\n$(VENV)/.installed-test:" in (ROOT / "Makefile").read_text(encoding="utf-8")


def test_every_oracle_is_in_the_list_and_its_links_lead_somewhere():
    links = re.findall(r"\]\(([^)]*)\)", (DOCS / "correctness.md").read_text(encoding="utf-8"))
    targets = {(DOCS / link).resolve() for link in links}
    assert all(target.is_file() for target in targets)
    assert set((ROOT / "tests" / "oracles").glob("*.py")) <= targets
