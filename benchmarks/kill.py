"""Kill training processes at random moments, go on with --resume each time, and compare with runs that nobody killed.

A run is a real process of the command line on a small problem whose rounds take milliseconds, on a disk that is made
slow, so that many moments are ones in which a checkpoint is half written. It is sent SIGKILL after a
random time, a tenth of the times while it still starts; after some kills it may end. Checked are

* each resume: it goes on from the last iteration in metrics.jsonl or the one before; no checkpoint is damaged;
* the end: both checkpoints (tensors and facts) and metrics.jsonl but for its times are those of a run that nobody
  killed, to the bit.

Usage: python benchmarks/kill.py [--kills 200] [--kills-per-run 20] [--seed 0] [--directory DIR]
"""

import argparse
import random
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "src" / "core"))

PIECES, PAUSE, LIFE, ITERATIONS_PER_KILL = 4, 0.003, 0.8, 6
"""Pieces in which a file is written, seconds after each; longest life after the start; rounds that make a run last."""

SMALL = [
    *("--simulator", "cartpole", "--num-envs", "2", "--rollout-steps", "64", "--normalise-rewards"),
    *("--actor-hidden-size", "16", "--critic-hidden-size", "16", "--num-hidden-layers", "1", "--batch-size", "64"),
    *("--device", "cpu", "--simulation-threads", "1", "--update-threads", "1"),
]
READY = re.compile(r"^Run directory: ", re.MULTILINE)
RESUMED = re.compile(r"^Resuming after iteration (\d+)", re.MULTILINE)


class LostError(Exception):
    """Something that a run had was not there after a kill."""


def main() -> None:
    """Kill as often as asked, and print what came of it."""
    options = parse(__doc__, kills=200, per_run=20)
    tally = repeat(options, run_with_kills)
    print(f"{tally['kills']} kills in {tally['runs']} runs: each went on, and ended as the one that nobody killed.")


def parse(doc: str, kills: int, per_run: int) -> argparse.Namespace:
    """Read the command line of a script that kills; its directory is a new one unless it is named."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=kills)
    parser.add_argument("--kills-per-run", type=int, default=per_run)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--directory", type=Path)
    options = parser.parse_args()
    options.directory = options.directory or Path(tempfile.mkdtemp(prefix="longstride-kill-"))
    return options


def repeat(options: argparse.Namespace, run: Callable[[Path, int, int], Counter[str]]) -> Counter[str]:
    """Call ``run(directory, seed, kills)`` until there were as many kills as asked; return what they met."""
    tally, begin = Counter[str](), time.monotonic()
    while tally["kills"] < options.kills:
        seed = options.seed + tally["runs"]
        kills = min(options.kills_per_run, options.kills - tally["kills"])
        tally += run(options.directory / str(seed), seed, kills)
        print(f"{time.monotonic() - begin:6.0f} s  {dict(tally)}", flush=True)
    return tally


def run_with_kills(directory: Path, seed: int, kills: int) -> Counter[str]:
    """Train once undisturbed and once with kills; return how many there were and what they met.

    Raises:
        LostError: something was lost, or the two runs differ.
    """
    rng, tally = random.Random(seed), Counter(runs=1)
    arguments = [*SMALL, "--seed", str(seed), "--training-episodes", str(ITERATIONS_PER_KILL * kills)]
    undisturbed, killed = directory / "undisturbed", directory / "killed"
    finish(start(undisturbed, arguments))
    for _ in range(kills):
        before, unfinished = last_iteration(killed), half_written(killed)
        process = start(killed, arguments, slow=True)
        out = kill(process, rng)
        check_resume(killed, before, out)
        if process.returncode == 0:
            break
        tally += Counter(kills=1, **{moment(out, half_written(killed) - unfinished): 1})
    else:
        before = last_iteration(killed)
        check_resume(killed, before, finish(start(killed, arguments)))
    compare(undisturbed, killed)
    return tally


def start(directory: Path, arguments: list[str], slow: bool = False) -> "subprocess.Popen[str]":
    """Begin or go on with a run in a process of its own."""
    from longstride.training.run_directory.directory import RunDirectory

    resume = ["--resume"] if RunDirectory(directory).holds_run() else []
    child = [sys.executable, __file__, "--child", "slow" if slow else "fast", "--mode", "train"]
    command = [*child, "--run-directory", str(directory), *arguments, *resume]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def finish(process: "subprocess.Popen[str]") -> str:
    """Return what a process prints until it ends well."""
    out, _ = process.communicate(timeout=1800)
    if process.returncode:
        raise LostError(f"exit code {process.returncode}: {out}")
    return out


def kill(process: "subprocess.Popen[str]", rng: random.Random) -> str:
    """Kill a process at a random moment of its start or of its first rounds; return what it printed."""
    assert process.stdout is not None
    out = ""
    if rng.random() < 0.9:
        while not READY.search(out) and (line := process.stdout.readline()):
            out += line
        life = rng.uniform(0.0, LIFE)
    else:
        life = rng.uniform(0.0, 4.0)
    with suppress(subprocess.TimeoutExpired):
        process.wait(life)
    process.kill()
    out += process.communicate()[0]
    if process.returncode not in (0, -9):
        raise LostError(f"exit code {process.returncode}: {out}")
    return out


def last_iteration(directory: Path) -> int:
    """Return the last iteration in a run's metrics.jsonl; 0 where there is none."""
    from longstride.training.run_directory.metrics_log import read_metrics

    return max((record["iteration"] for record in read_metrics(directory)), default=0)


def check_resume(directory: Path, before: int, out: str) -> None:
    """Check from where a process went on.

    Args:
        directory: of the run.
        before: last iteration in its metrics.jsonl when the process began.
        out: what it printed.
    """
    if "damaged" in out or "Traceback" in out:
        raise LostError(out)
    resumed = RESUMED.search(out)
    if resumed and int(resumed[1]) not in (before, before - 1):
        raise LostError(f"{directory} had {before} iterations and went on after {resumed[1]}")
    if READY.search(out) and not resumed and before > 1:
        raise LostError(f"{directory} had {before} iterations and began again")


def half_written(directory: Path) -> set[tuple[str, int]]:
    """Return the files of checkpoints that are not complete, with the time of their last byte."""
    return {(path.name, path.stat().st_mtime_ns) for path in (directory / "checkpoints").glob("*/*.tmp")}


def moment(out: str, unfinished: set[tuple[str, int]]) -> str:
    """Return what a run was doing when it was killed.

    Args:
        out: what it printed.
        unfinished: files that it had not completed.
    """
    if not READY.search(out):
        return "while_it_started"
    return "while_a_checkpoint_was_written" if unfinished else "between"


def compare(undisturbed: Path, killed: Path) -> None:
    """Check that two runs made the same."""
    from longstride.training.run_directory.checkpoint import load_checkpoint
    from longstride.training.run_directory.metrics_log import read_metrics

    for which in ("last", "best"):  # the facts hold the digest of the tensor file
        a, b = (load_checkpoint(run / "checkpoints" / which)[1] for run in (undisturbed, killed))
        if a != b:
            raise LostError(f"{killed}: checkpoints/{which} differs: {[k for k in a if a[k] != b.get(k)]}")
    a, b = (without_times(read_metrics(run)) for run in (undisturbed, killed))
    if a != b:
        raise LostError(f"{killed}: metrics.jsonl differs")


def without_times(value: Any) -> Any:
    """Return records without what the clock decides."""
    if isinstance(value, list):
        return [without_times(each) for each in value]
    if not isinstance(value, dict):
        return value
    return {k: without_times(v) for k, v in value.items() if "seconds" not in k and "per_second" not in k}


def child(disk: str, arguments: list[str]) -> int:
    """Be the command line, on a slow disk if that is asked for, without TensorBoard, whose import takes seconds."""
    from longstride.cli import main as command_line
    from longstride.training.run_directory import files

    def write_in_pieces(path: Path, content: bytes) -> None:
        size = max(1, -(-len(content) // PIECES))
        with path.open("wb", buffering=0) as file:
            for first in range(0, len(content), size):
                file.write(content[first : first + size])
                time.sleep(PAUSE)

    sys.modules["torch.utils.tensorboard"] = None  # type: ignore[assignment]
    if disk == "slow":
        files.write_durably = write_in_pieces
    return command_line(arguments)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        sys.exit(child(sys.argv[2], sys.argv[3:]))
    main()
