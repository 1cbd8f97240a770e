"""Kill a sweep at random moments, continue it each time, and look for anything that was lost or touched.

A sweep is a real process of the command line, which trains in processes of its own, on a small problem. It gets SIGKILL
after a random time; a tenth of the times while it still starts. The same command then continues it. Files of the user
lie beside the folder of the sweep, in it, and in the run directories of its trials: names like those of a sweep and
others, and links. Checked are

* each continuation: no traceback, no refusal, exit code 0 or the kill; no trial that had ended is lost
* the end: as many ended trials as asked for, sweep.json and sweep.html are complete
* the files of the user: the same names with the same SHA-256, link targets included, after each kill

Usage: python benchmarks/kill_sweep.py [--kills 100] [--kills-per-run 25] [--seed 0] [--directory DIR]
"""

import hashlib
import json
import os
import random
import subprocess
import sys
import time
from collections import Counter
from contextlib import suppress
from functools import partial
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SOURCES = str(ROOT / "src" / "core")
sys.path[:0] = [str(ROOT), SOURCES]

from benchmarks.kill import LostError, finish, parse, repeat  # noqa: E402

LIFE, START = (0.8, 3.0), (0.0, 0.8)
"""Shortest and longest life of a process that may train, and of one that is killed while it starts.

They are multiples of a third of a sweep with one trial: of its start, its base training and its trial.
"""

PER_TRIAL = 4
"""Kills for each trial of a sweep: a life holds the start of the sweep and about half a training."""

SMALL = [
    *("--simulator", "cartpole", "--num-envs", "2", "--rollout-steps", "64", "--training-episodes", "3"),
    *("--actor-hidden-size", "16", "--critic-hidden-size", "16", "--num-hidden-layers", "1", "--batch-size", "64"),
    *("--device", "cpu", "--simulation-threads", "1", "--update-threads", "1", "--evaluation-episodes", "2"),
    *("--sweep", "learning_rate_actor=1e-4..1e-2 log", "--finalists", "1", "--no-pruning"),
]
FOREIGN = ("notes.txt", "journal.bak", "config.json.tmp.mine", "data/draft.tmp", "trial-9999-mine/config.json")
"""Files that are put into each folder."""


def main() -> None:
    """Kill as often as asked, and print what came of it."""
    options = parse(__doc__, kills=100, per_run=25)
    third = seconds_of_a_third(options.directory / "undisturbed")
    tally = repeat(options, partial(sweep_with_kills, third=third))
    print(f"{tally['kills']} kills of {tally['runs']} sweeps: each continued, and ended with every trial.")
    print(f"{tally['foreign files']} files and links of the user are unchanged.")


def seconds_of_a_third(folder: Path) -> float:
    """Return a third of the seconds of a sweep with one trial that nobody kills, once kernels are compiled."""
    begin = 0.0
    for number in range(2):
        begin = time.monotonic()
        finish(start(folder / str(number), 0, 1, held_out=0))
    return (time.monotonic() - begin) / 3


def sweep_with_kills(directory: Path, seed: int, kills: int, third: float) -> Counter[str]:
    """Run a sweep with kills to its end; return how many there were and what they met.

    Args:
        directory: of the sweep and of what lies beside it.
        seed: of the sweep and of the moments.
        kills: how many at most; fewer if the sweep ends before.
        third: seconds that the start of a sweep takes, or a training.

    Raises:
        LostError: something was lost, or a file of the user's was touched.
    """
    rng, tally, folder, done = random.Random(seed), Counter(runs=1), directory / "sweep", 0
    foreign = plant(directory, folder, {})
    trials = max(2, kills // PER_TRIAL)
    for _ in range(kills):
        process = start(folder, seed, trials)
        out = kill(process, rng, third)
        foreign = plant(directory, folder, check_foreign(foreign))
        done = check_trials(folder, done, out)
        if process.returncode == 0:
            break
        tally += Counter(kills=1, **{moment(folder): 1})
    check_end(folder, trials, finish(start(folder, seed, trials)))
    check_foreign(foreign)
    return tally + Counter({"foreign files": len(foreign)})


def start(folder: Path, seed: int, trials: int, held_out: int = 2) -> "subprocess.Popen[str]":
    """Begin or continue a sweep in a process of its own."""
    command = [sys.executable, "-c", "import sys; from longstride.cli import main; sys.exit(main())"]
    numbers = ["--trials", str(trials), "--held-out-seeds", str(held_out), "--seed", str(seed)]
    arguments = ["--mode", "sweep", *SMALL, *numbers, "--run-directory", str(folder)]
    environment = {**os.environ, "PYTHONPATH": SOURCES}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    return subprocess.Popen([*command, *arguments], text=True, env=environment, **pipes)


def kill(process: "subprocess.Popen[str]", rng: random.Random, third: float) -> str:
    """Kill a process at a random moment; return what it printed."""
    life = third * rng.uniform(*(START if rng.random() < 0.1 else LIFE))
    with suppress(subprocess.TimeoutExpired):
        process.wait(life)
    process.kill()
    out = process.communicate()[0]
    if process.returncode not in (0, -9) or "Traceback" in out:
        raise LostError(f"exit code {process.returncode}: {out}")
    return out


def plant(directory: Path, folder: Path, known: dict[Path, str]) -> dict[Path, str]:
    """Put files of the user beside a sweep, into it and into its run directories; return all, with their digests.

    A folder that is not the sweep's own yet gets none, because a sweep refuses it then.
    """
    places = [directory / "beside", *([folder] if (folder / ".longstride.json").exists() else [])]
    places += [path.parent for path in folder.glob("**/.longstride.json") if path.parent != folder]
    for place in places:
        for name in FOREIGN:
            path = place / name
            if path not in known:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(f"{path} is mine\n")
                known[path] = digest(path)
        link = place / "link"
        if link not in known:
            link.symlink_to(directory / "beside" / "notes.txt")
            known[link] = digest(link)
    return known


def check_foreign(foreign: dict[Path, str]) -> dict[Path, str]:
    """Return the files of the user, if each is as it was.

    Raises:
        LostError: one is not.
    """
    for path, known in foreign.items():
        if digest(path) != known:
            raise LostError(f"{path} of the user was touched")
    return foreign


def digest(path: Path) -> str:
    """Return the SHA-256 of a file or of a link's target as text; empty if there is none."""
    if path.is_symlink():
        return f"link to {os.readlink(path)}"
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""


def check_trials(folder: Path, before: int, out: str) -> int:
    """Return how many results a sweep has, which must not become fewer; ``out`` is what it printed.

    Raises:
        LostError: there are fewer, or the sweep refused to continue.
    """
    if "error:" in out:
        raise LostError(out)
    count = results(folder)
    if count < before:
        raise LostError(f"{folder} had {before} results and has {count}")
    return count


def results(folder: Path) -> int:
    """Return the number of ended trainings in Optuna's journal and in the files beside run directories."""
    journal, ended = folder / "journal.log", 0
    for line in journal.read_bytes().splitlines() if journal.exists() else []:
        with suppress(ValueError):  # the last line may be cut off
            content = json.loads(line)
            ended += content.get("op_code") == 6 and content.get("state") == 1
    return ended + sum(1 for pattern in ("base.json", "held-out/*.json") for _ in folder.glob(pattern))


def moment(folder: Path) -> str:
    """Return what a sweep was doing when it was killed."""
    if not (folder / "journal.log").exists():
        return "before_the_journal"
    if not (folder / "base.json").exists():
        return "in_the_base_training"
    return "in_the_comparison" if (folder / "held-out").exists() else "in_the_trials"


def check_end(folder: Path, trials: int, out: str) -> None:
    """Check that a sweep is complete; ``out`` is what it printed.

    Raises:
        LostError: it is not.
    """
    content = json.loads((folder / "sweep.json").read_bytes())
    complete = sum(trial["state"] == "complete" for trial in content["trials"])
    if complete != trials or not content["held_out"] or "</html>" not in (folder / "sweep.html").read_text():
        raise LostError(f"{folder} is not complete ({complete} of {trials} trials): {out}")


if __name__ == "__main__":
    main()
