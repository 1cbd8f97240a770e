"""Trains a policy on a scenario with the defaults and evaluates it beside the rules, for the scripts of this folder."""

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def trained_objectives(
    folder: Path, scenario: Mapping[str, Any], steps: int, episodes: int, prior: str = "auto"
) -> dict[str, dict[str, float]]:
    """Train, play other episodes, and return each policy's objective: its mean, and its 95 % interval (low, high)."""
    folder.mkdir(parents=True, exist_ok=True)
    file, run = folder / "scenario.json", folder / "run"
    file.write_text(json.dumps(scenario), encoding="utf-8")
    command = [sys.executable, "-m", "longstride", "--mode"]
    train = ["train", "--scenario", str(file), "--total-steps", str(steps), "--run-directory", str(run)]
    train += ["--policy-prior", prior]
    subprocess.run([*command, *train], check=True, capture_output=True)
    evaluate = ["evaluate", "--checkpoint", str(run), "--evaluation-episodes", str(episodes)]
    subprocess.run([*command, *evaluate], check=True, capture_output=True)
    policies = json.loads((run / "evaluation.json").read_text(encoding="utf-8"))["policies"]
    return {name: of["objective"] for name, of in policies.items() if "objective" in of}
