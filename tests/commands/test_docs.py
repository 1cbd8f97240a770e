"""The documentation is true: its commands run, its links lead somewhere, its tables are those of the program."""

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from dataclasses import replace

import numpy as np
import pytest
import torch
from helpers.documentation import DOCS, PAGES, ROOT, assert_printed, blocks, commands, names, page, rows, section
from helpers.exported_policies import save_run

import longstride

pytest.importorskip("pydantic")

from longstride import cli
from longstride.cli import main
from longstride.commands import gpu_monitor
from longstride.commands.flags import read_flags
from longstride.config import Config
from longstride.learning.divergence import Fallback
from longstride.learning.oom_recovery import OutOfMemory
from longstride.policies.make_spec import spec_for
from longstride.policies.networks import ActorCritic
from longstride.process.scenario_file import parse_scenario
from longstride.settings import load_settings
from longstride.simulators.classic_control import CartPole
from longstride.simulators.simulator import Compiled, Simulator
from longstride.training.rollout_growth import GrowthLimits, RolloutGrowth

HYPERPARAMETERS = ROOT / "hyperparameters.py"
RESEARCH = sorted((ROOT / "research").rglob("*.md"))
SMALL = [
    "--training-episodes",
    "1",
    "--num-envs",
    "1",
    "--actor-hidden-size",
    "16",
    "--critic-hidden-size",
    "16",
    "--num-hidden-layers",
    "1",
]


def test_every_command_is_understood():
    pytest.importorskip("shtab")
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    modes = set()
    for path in PAGES:
        for program, *flags in commands(path.read_text(encoding="utf-8")):
            if flags[:1] == ["--print-completion"]:
                assert main(flags[:2]) == 0
            elif program == "longstride":
                mode, own = read_flags(flags, cli.MODES)
                load_settings(None, {name: value for name, value in own.items() if name in Config.model_fields})
                modes.add(mode.name)
            elif program == "make":
                targets = [flag for flag in flags if "=" not in flag]
                assert all(f"\n{target.replace('.venv', '$(VENV)')}:" in makefile for target in targets), flags
            elif program == "torchrun":
                own = flags[flags.index("scripts/train.py") + 1 :]
                assert read_flags(own, cli.MODES)[0].name == "train"
            elif program == "python" and flags[0] == "scripts/gpu_monitor.py":
                gpu_monitor._check(gpu_monitor._parser().parse_known_flags(flags[1:]))
            elif program == "python":
                assert flags[0] in ("-c", "-m") or (ROOT / flags[0]).is_file(), flags
            else:
                assert program in ("source", "pip", "cc", "clang"), (path.name, program)
    assert modes == {mode.name for mode in cli.MODES}


def test_every_path_in_the_text_is_there():
    pattern = re.compile(r"`(?:python )?((?:tests|benchmarks|research|src|scripts|docs)/[\w./-]*)")
    for path in [*PAGES, *RESEARCH]:
        for name in pattern.findall(path.read_text()):
            assert (ROOT / name).exists(), (path.name, name)
    for name in re.findall(r"`([\w/]+\.py)`", (ROOT / "CONTRIBUTING.md").read_text()):
        assert any((folder / name).is_file() for folder in (ROOT, ROOT / "src" / "core" / "longstride")), name


def _anchors(path):
    headings = re.findall(r"^#+ (.*)$", re.sub(r"^```.*?^```", "", path.read_text(), flags=re.DOTALL | re.M), re.M)
    return {re.sub(r"[\s-]+", "-", re.sub(r"[^\w\s-]", "", heading.lower()).strip()) for heading in headings}


def test_every_link_leads_somewhere():
    for path in [*PAGES, *RESEARCH, ROOT / "CHANGELOG.md"]:
        text = re.sub(r"^```.*?^```", "", path.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
        for link in [*re.findall(r"\]\(([^)\s]*)\)", text), *re.findall(r'src="([^"]*)"', text)]:
            if link.startswith("https://"):
                continue
            name, _, anchor = link.partition("#")
            target = (path.parent / name).resolve() if name else path
            assert target.is_file(), (path.name, link)
            assert DOCS in target.parents or DOCS not in path.parents, f"{link} leaves the site"
            assert not anchor or anchor in _anchors(target), (path.name, link)


def test_every_page_is_in_the_navigation_and_in_the_list():
    listed = re.findall(r"\]\(([\w/-]+\.md)\)", page("index.md"))
    navigation = re.findall(r": ([\w/-]+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE)
    pages = {str(path.relative_to(DOCS)) for path in PAGES if DOCS in path.parents}
    notebooks = {str(path.relative_to(DOCS).with_suffix(".md")) for path in DOCS.rglob("*.ipynb")}
    assert sorted(navigation) == sorted(pages | notebooks)
    assert {*listed, "index.md"} == pages


def test_the_home_of_the_site_says_what_the_readme_says():
    begin, end = "**For whom.**", "## Install"
    (part,) = re.findall(rf"{re.escape(begin)}.*?(?={end})", (ROOT / "README.md").read_text(), re.DOTALL)
    assert part.replace("](docs/", "](").strip() in page("index.md")


def test_the_hyperparameters_are_those_of_the_program():
    text = page("reference/hyperparameters.md").partition("\n## What they cost")[0]
    found = {names(cells[:1])[0]: names(cells[1:2])[0] for cells in rows(text.partition("\n## ")[2])}
    defaults = Config()
    assert list(found) == [name.upper() for name in Config.model_fields]
    for name, default in found.items():
        assert eval(default) == getattr(defaults, name.lower()), name


def test_the_contract_names_every_function_and_attribute():
    text = page("reference/simulator-contract.md")
    functions = {names(cells[:1])[0].partition("(")[0] for cells in rows(section(text, "Functions"))}
    assert functions == {*Compiled._fields, "episode_metrics", "figures"}
    attributes = [names(cells[:1])[0] for cells in rows(section(text, "Attributes"))]
    assert sorted(attributes) == sorted(Simulator.__annotations__)


def test_the_names_of_the_api_are_in_its_reference():
    listed = [name for cells in rows(section(page("reference/python-api.md"), "Names")) for name in names(cells[:1])]
    assert sorted(listed) == sorted(longstride.__all__)


def test_every_room_is_in_the_architecture():
    listed = {names(cells[:1])[0] for cells in rows(section(page("explanation/architecture.md"), "The rooms"))}
    package = ROOT / "src" / "core" / "longstride"
    rooms = {str(path.parent.relative_to(package)) for path in package.rglob("__init__.py")} - {"."}
    assert {room for room in rooms if room.count("/") == 0} <= listed <= rooms


@pytest.fixture(scope="module")
def small_run(tmp_path_factory):
    """Return the directory of a run of the reference's shop, and what was printed."""
    folder = tmp_path_factory.mktemp("shop")
    (folder / "shop.py").write_text(blocks(page("reference/simulator-contract.md"), "python")[0])
    flags = ["--simulator", f"{folder / 'shop.py'}:Shop", *SMALL, "--evaluate-every", "1", "--evaluation-episodes", "2"]
    assert main(["--mode", "train", *flags, "--run-directory", str(folder / "run")], HYPERPARAMETERS) == 0
    return folder / "run"


def test_the_shop_trains_and_is_evaluated(small_run):
    assert main(["--mode", "evaluate", "--checkpoint", str(small_run), "--evaluation-episodes", "2"]) == 0
    policies = json.loads((small_run / "evaluation.json").read_text())["policies"]
    assert list(policies) == ["trained", "trained_sampled", "untrained", "order_up_to_12"]


def test_the_metrics_are_those_of_a_record(small_run):
    text = page("reference/metrics.md")
    record = json.loads((small_run / "metrics.jsonl").read_text())
    machine, gpu = section(text, "The machine").split("| in `gpu` |")
    failures, memory, fallback = re.split(r"An entry of `\w+`:", section(text, "Failures and choices"))
    tables = section(text, "The rollout"), section(text, "The update"), section(text, "Learning"), failures, machine
    found = [name for table in tables for cells in rows(table) for name in names(cells[:1])]
    assert sorted(found) == sorted(record)
    assert set(record["evaluation"]) == {"episodes", "seconds", "metrics"}
    for table, fields in ((memory, OutOfMemory._fields), (fallback, Fallback._fields)):
        assert sorted(name for cells in rows(table) for name in names(cells[:1])) == sorted(fields)
    figures = {name for cells in rows(f"|{gpu}") for name in names(cells[:1])} - {"gpu"}
    assert figures == {"samples", "utilisation", "power_watts", "sm_mhz", "memory_bytes", "throttled", "reasons"}


def test_the_metrics_of_growing_rollouts_are_those_of_their_record():
    listed = {
        name for cells in rows(section(page("reference/metrics.md"), "Rollouts that grow")) for name in names(cells[:1])
    }
    figures = RolloutGrowth(GrowthLimits(32, 8192, 372_000, 10**6)).figures()
    assert listed == {*figures, "gradient_signal", "gradient_noise"}


def test_every_file_of_a_run_is_in_the_list(small_run):
    text = page("reference/run-directory.md")
    listed = {name.rstrip("/") for cells in rows(text.partition("\n## ")[0]) for name in names(cells[:1])}
    assert {path.name for path in small_run.iterdir()} <= {name.partition("/")[0] for name in listed}
    checkpoint = json.loads(next((small_run / "checkpoints" / "last").glob("*.json")).read_text())
    for heading, content in (
        ("config.json", json.loads((small_run / "config.json").read_text())),
        ("plan.json", json.loads((small_run / "plan.json").read_text())),
        ("Checkpoints", checkpoint),
    ):
        assert {name for cells in rows(section(text, heading)) for name in names(cells[:1])} <= set(content), heading


def test_the_scenario_of_the_documentation_is_one():
    assert (
        parse_scenario(json.loads(blocks(page("reference/process-simulator.md"), "json")[0]), "docs").name
        == "two_desks"
    )


def test_every_oracle_is_in_the_list_and_every_row_names_tests():
    text = page("explanation/correctness.md")
    assert {path.name for path in (ROOT / "tests" / "oracles").glob("*.py")} <= set(
        re.findall(r"`tests/oracles/(\w+\.py)`", text)
    )
    assert len(rows(text)) > 40
    for cells in rows(text):
        assert names(cells[-1:]), cells
        for name in names(cells[-1:]):
            assert "\ndef test_" in (ROOT / name).read_text(encoding="utf-8"), name


def test_the_extra_of_the_site_and_its_target_are_there():
    assert "\n$(VENV)/.installed-docs:" in (ROOT / "Makefile").read_text(encoding="utf-8")
    assert "\ndocs =" in (ROOT / "setup.cfg").read_text(encoding="utf-8")
    assert "make docs" in (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert tomllib.loads((ROOT / "pyproject.toml").read_text())["build-system"]


def run_here(words, extra=()):
    """Run a command of the documentation in this process."""
    assert words[0] == "longstride"
    return main([*words[1:], *extra], HYPERPARAMETERS)


@pytest.fixture
def elsewhere(tmp_path, monkeypatch):
    """Work in an empty folder, as the installed command."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["longstride"])
    return tmp_path


@pytest.mark.slow
def test_the_first_training(elsewhere, capsys):
    text = page("tutorials/first-training.md")
    train, evaluate, resume = (words for words in commands(text) if words[0] == "longstride")
    assert run_here(train, SMALL) == 0
    lines = capsys.readouterr().out.splitlines()
    plan, iterations = blocks(text, 'text title="Output of the training"')
    assert_printed(plan, lines, any_number=True)
    assert_printed(iterations.splitlines()[0], lines, any_number=True)
    assert run_here(evaluate, ["--evaluation-episodes", "2"]) == 0
    table = capsys.readouterr().out
    compared = [names(cells[:1])[0] for cells in rows(section(text, "3. Compare"))]
    assert compared and all(f"│ {name} " in table for name in compared)
    assert "--resume" in resume
    assert run_here(resume, [*SMALL[2:], "--training-episodes", "2"]) == 0
    capsys.readouterr()
    read, act = blocks(text, "python")
    exec(read, {})
    assert len(capsys.readouterr().out.splitlines()) == 2
    exec(act, {})
    assert 0 <= int(capsys.readouterr().out) < 62


def test_the_policy_of_a_run_is_used_from_python(elsewhere, capsys):
    (train, _) = (words for words in commands((ROOT / "README.md").read_text()) if words[0] == "longstride")
    assert run_here(train, [*SMALL, "--rollout-steps", "64"]) == 0
    capsys.readouterr()
    for text in ((ROOT / "README.md").read_text(), page("how-to/use-a-trained-policy.md")):
        space: dict = {}
        for code in blocks(text, "python"):
            exec(code, space)
        assert int(space["action"]) in (0, 1)
    assert space["actions"].shape == (100,)
    exec(blocks(page("how-to/evaluate-a-policy.md"), "python")[0], {})
    assert "trained_sampled" in capsys.readouterr().out


def _without_numbers(line):
    """Return a line with # for each number and single spaces."""
    return " ".join(re.sub(r"\d[\d.]*(e-\d+)?", "#", line).replace("episodes", "episode").split())


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
def test_the_programs_of_the_export_act_as_the_policy(elsewhere, capsys):
    """With random parameters: after a short training all actions would be the same."""
    pytest.importorskip("onnxscript")
    pytest.importorskip("onnxruntime")
    run = elsewhere / "runs" / "cartpole"
    model = ActorCritic(replace(spec_for(CartPole(), (8, 8, 8), (8, 8, 8), "relu"), observation_limit=1.5))
    with torch.no_grad():
        model.flat.copy_(torch.randn(model.flat.shape, generator=torch.Generator().manual_seed(1)))
    save_run(run, model, {"simulator": "cartpole", "options": {}}, CartPole().description())
    text, folder = page("how-to/export-a-policy.md"), run / "export"
    (train, export, install, cc, clang) = commands(text)
    assert (train[:3], install[:2]) == (["longstride", "--mode", "train"], ["pip", "install"])
    assert run_here(export) == 0
    printed = {_without_numbers(line) for line in capsys.readouterr().out.splitlines()}
    for line in blocks(text, 'text title="Output of the export"')[0].splitlines():
        assert _without_numbers(line) in printed, line
    programs = [*blocks(text, "c"), *blocks(text, "python")]
    for name, code in zip(("main.c", "by_onnx.py", "by_numpy.py"), programs, strict=True):
        (folder / name).write_text(code)
    subprocess.run(cc, cwd=folder, check=True)
    if shutil.which("clang") and shutil.which("wasm-ld"):
        subprocess.run(clang, cwd=folder, check=True)
        assert (folder / "policy.wasm").read_bytes()[:4] == b"\0asm"
    observations = np.random.default_rng(0).normal(0.0, 2.0, (40, 4)).astype(np.float32)
    lines = "".join(" ".join(map(repr, row.tolist())) + "\n" for row in observations)
    expected = longstride.load_policy("runs/cartpole").act(observations).tolist()
    assert 5 < sum(expected) < 35
    for words in (["./main"], [sys.executable, "by_onnx.py"], [sys.executable, "by_numpy.py"]):
        done = subprocess.run(words, input=lines, cwd=folder, capture_output=True, text=True, check=True)
        assert [int(line) for line in done.stdout.split()] == expected, words


@pytest.mark.slow
def test_a_run_from_python(elsewhere, monkeypatch, capsys):
    (elsewhere / "inventory.py").write_text("\n\n".join(blocks(page("tutorials/your-own-simulator.md"), "python")[:2]))
    monkeypatch.syspath_prepend(elsewhere)
    train, again = blocks(page("reference/python-api.md"), "python")
    smaller = train.replace("training_episodes=20", "training_episodes=1, rollout_steps=64, num_envs=1")
    assert smaller != train
    space: dict = {}
    exec(smaller, space)
    assert "optimal" in capsys.readouterr().out
    assert 0 <= int(space["order"]) <= 30
    exec(again, space)
    monkeypatch.delitem(sys.modules, "inventory")


def test_a_simulator_as_a_gymnasium_environment():
    pytest.importorskip("gymnasium")
    space = {"__name__": "example"}
    exec(blocks(page("how-to/use-a-gymnasium-environment.md"), "python")[1], space)
    assert (space["observation"].tolist(), space["reward"], space["terminated"]) == ([1.0], 1.0, False)


def test_no_page_names_a_figure_without_a_source():
    for path in PAGES:
        text = path.read_text(encoding="utf-8")
        assert "not part of the project" not in text, path.name
        assert os.sep + "tmp" + os.sep not in text, path.name
