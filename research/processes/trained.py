"""Trains a policy on a scenario with the defaults and evaluates it beside the rules, for the scripts of this folder."""

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any


def trained_objectives(
    folder: Path, scenario: Mapping[str, Any], steps: int, episodes: int, prior: str = "auto"
) -> dict[str, dict[str, float]]:
    """Train, play other episodes, and return each policy's objective: its mean, and its 95 % interval (low, high)."""
    return trained_metrics(folder, scenario, steps, episodes, prior, "objective")


def trained_metrics(
    folder: Path,
    scenario: Mapping[str, Any],
    steps: int,
    episodes: int,
    prior: str,
    metric: str,
    more: Sequence[str] = (),
) -> dict[str, dict[str, float]]:
    """Do the same for another metric, with ``more`` flags of the training."""
    folder.mkdir(parents=True, exist_ok=True)
    file, run = folder / "scenario.json", folder / "run"
    file.write_text(json.dumps(scenario), encoding="utf-8")
    command = [sys.executable, "-m", "longstride", "--mode"]
    train = ["train", "--scenario", str(file), "--total-steps", str(steps), "--run-directory", str(run)]
    train += ["--policy-prior", prior, *more]
    subprocess.run([*command, *train], check=True, capture_output=True)
    evaluate = ["evaluate", "--checkpoint", str(run), "--evaluation-episodes", str(episodes)]
    subprocess.run([*command, *evaluate], check=True, capture_output=True)
    policies = json.loads((run / "evaluation.json").read_text(encoding="utf-8"))["policies"]
    return {name: of[metric] for name, of in policies.items() if metric in of}
