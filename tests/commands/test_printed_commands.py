"""The commands and flags in every sentence that the program prints are understood when they are typed."""

import ast
import html
import re
import shlex
from functools import cache
from pathlib import Path

import pytest
from helpers.toy_runs import BANDIT_NETWORK
from oracles import toy_simulators

pytest.importorskip("pydantic")

from longstride import cli
from longstride.cli import main
from longstride.commands import gpu_monitor
from longstride.commands.flags import make_parser, read_flags
from longstride.errors import this_command

SOURCE = Path(cli.__file__).parent
FOREIGN = {"--nproc-per-node", "--no-python", "--upgrade", "--index-url", "--help", "--version", "--print-completion"}
FOREIGN |= {"--head", "--no"}
"""Flags of torchrun, pip and ray, those that no mode lists, and the beginning of ``--no-NAME``."""
FLAG = re.compile(r"(?<![\w(-])--[a-z][a-z0-9-]*[a-z0-9]")


@cache
def flags_of():
    return {mode.name: {*make_parser(mode).flags(), "--mode", "--help"} for mode in cli.MODES}


def texts(source):
    """Return the strings of a module that are no docstrings, with ``X`` for each value that an f-string fills in."""
    tree, found = ast.parse(source), []
    statements = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    inside = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in ast.walk(node)}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            found.append("".join(p.value if isinstance(p, ast.Constant) else "X" for p in node.values))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in statements | inside:
            found.append(node.value)
    return found


def wrong_flags(text):
    """Return the flags of a text that its mode, or without one every mode, does not know."""
    known = flags_of()
    parts = re.split(r"(?:--mode |\blongstride )(?=[a-z])", text)
    every = set().union(*known.values(), FOREIGN, gpu_monitor._parser().flags())
    wrong = [flag for flag in FLAG.findall(parts[0]) if flag not in every]
    for part in parts[1:]:
        mode = re.match(r"[a-z]+", part)[0]
        command = re.split(r"[.;:,)] |, ", part)[0]
        wrong += [f"{mode} {flag}" for flag in FLAG.findall(command) if flag not in known.get(mode, every) | FOREIGN]
        wrong += [flag for flag in FLAG.findall(part) if flag not in every]
    return wrong


def test_wrong_flags_are_found():
    assert wrong_flags("use --batch-siz") == ["--batch-siz"]
    assert wrong_flags("Compare: X --mode evaluate --resume") == ["evaluate --resume"]
    assert wrong_flags("Resume with: X --mode train --resume --run-directory X") == []


@pytest.mark.parametrize("folder", sorted({path.parent for path in SOURCE.rglob("*.py")}), ids=lambda path: path.name)
def test_flags_in_sentences_of_the_source_are_flags(folder):
    for path in sorted(folder.glob("*.py")):
        if path.name in ("gpu_monitor.py", "ray_guard.py") or "distributed" in path.parts:  # commands of their own
            continue
        for text in texts(path.read_text(encoding="utf-8")):
            assert wrong_flags(text) == [], (path.name, text)


def commands_in(text):
    """Return the words of each command of ours in printed text or a page, up to the end of its line or sentence."""
    plain = html.unescape(re.sub(r"<[^>]+>", "\n", text)).replace("\\\n", " ")
    lines = re.findall(rf"{re.escape(this_command())} ((?:--mode|[a-z]+ --)[^\n]*)", plain)
    return [shlex.split(re.split(r"[,;)] |\.(?: |$)", line)[0]) for line in lines]


def test_commands_printed_by_a_run_its_report_and_the_doctor_are_understood(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    small = ["--device", "cpu", "--training-episodes", "1", "--num-envs", "1"]
    toy = ["--simulator", f"{toy_simulators.__file__}:Bandit", *BANDIT_NETWORK, *small]
    assert main(["init"]) == 0
    assert main(["plan", *toy]) == 0
    assert main(["train", *toy, "--run-directory", "a run"]) == 0
    assert main(["train", *toy, "--run-directory", "a run"]) == 2  # it is there already
    main(["doctor", "--run-directory", "a run"])
    assert main(["report", "--run-directory", "a run"]) == 0
    assert main(["evaluate", "--checkpoint", "a run", "--evaluation-episodes", "2"]) == 0
    printed = capsys.readouterr()
    page = (tmp_path / "a run" / "report.html").read_text()
    modes = set()
    for words in [*commands_in(printed.out), *commands_in(printed.err), *commands_in(page)]:
        mode, _ = read_flags(words, cli.MODES)
        modes.add(mode.name)
    assert modes >= {"train", "evaluate", "replay", "report"}
