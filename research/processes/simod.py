"""Counterfactuals of Simod's models beside true ones, on the logs of :file:`counterfactuals.py`.

Simod and Prosimos run in an environment of their own (``pip install simod prosimos``, and Java), whose Python is named.
Simod is run with its settings for one run without a search (``--one-shot``); Prosimos plays as many cases as the log
has. Results are kept in FOLDER/simod.json, so an interrupted run continues.

Usage: python research/processes/simod.py ENGINE.py FOLDER PYTHON [--process plain ...] [--seeds 101 102] [--runs 5]
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from research.processes.counterfactuals import generated, load_engine, truth

MODEL = Path(__file__).with_name("simod_model.py")


def main() -> None:
    """Measure what is missing and print all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("engine", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("python", type=Path, help="of the environment that has Simod")
    parser.add_argument("--process", nargs="+", default=[])
    parser.add_argument("--seeds", type=int, nargs="+", default=[101, 102])
    parser.add_argument("--runs", type=int, default=5)
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    engine, file = load_engine(options.engine), options.folder / "simod.json"
    found: dict[str, Any] = json.loads(file.read_text()) if file.exists() else {}
    for seed in options.seeds:
        for name in options.process or engine.PROCESSES:
            key = f"{name} {seed}"
            if key not in found:
                found[key] = measure(engine, name, seed, options)
                file.write_text(json.dumps(found, indent=1) + "\n")
            show(key, found[key], truth(engine, name, options.folder / f"truth of {name}.json", 60))


def measure(engine: Any, name: str, seed: int, options: argparse.Namespace) -> dict[str, Any]:
    """Return the mean hours of a log, and those of all runs of Simod's models and their changes."""
    log, _ = generated(engine, name, seed, options.folder)
    made, stem = engine.changed(name, ""), f"{name.replace(' ', '_')}_{seed}"
    people = ["--like", engine.MORE[name], "--busy", made["busy"], "--runs", str(options.runs)]
    files = [str(options.folder / f"{stem}.csv"), str(options.folder / "simod" / stem)]
    done = subprocess.run(
        [str(options.python), str(MODEL), *files, *people], check=True, stdout=subprocess.PIPE, text=True
    )
    first, last = log.case_times()
    return {"logged": float((last - first).mean()) / 3600.0, **json.loads(done.stdout.splitlines()[-1])}


def show(key: str, found: dict[str, Any], true: list[float]) -> None:
    """Print base and predicted / true changes in %; * beyond 10 % of the true change and 2 points."""
    for variant in ("model", "no delays"):
        means = np.array(found[variant]).mean(axis=1)
        pairs = "  ".join(
            f"{p:+.1f}/{t:+.1f}{'*' if abs(p - t) > max(2.0, 0.1 * abs(t)) else ''}"
            for p, t in zip(100.0 * (means[1:] / means[0] - 1.0), true, strict=True)
        )
        print(f"{key:21} {variant:10} base {means[0]:.1f} h of {found['logged']:.1f}  {pairs}", flush=True)


if __name__ == "__main__":
    main()
