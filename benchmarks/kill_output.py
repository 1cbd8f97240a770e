"""Kill trainings at random moments whose standard output and standard error lie on a full disk.

Each run is killed and continued as in ``benchmarks/kill.py``, and compared with a run that nobody disturbed: both
checkpoints and ``metrics.jsonl`` but for its times, to the bit. The output goes to a file on a tmpfs that is full. If
this process may not mount one, it goes to a pipe that nobody reads. Beside the runs lies a folder of foreign files,
some with names that a run uses. Its digest must stay the same.

Usage: python benchmarks/kill_output.py [--kills 200] [--kills-per-run 20] [--seed 0] [--directory DIR]
"""

import hashlib
import os
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "src" / "core")]

from benchmarks import kill  # noqa: E402
from benchmarks.kill import LostError  # noqa: E402

FOREIGN = (
    *(
        "metrics.jsonl",
        "config.json",
        "config.json.tmp",
        "run.lock",
        "messages.log",
        "notes.txt",
        "iteration-00000001.json",
    ),
    *("checkpoints/last/iteration-00000001.json", "checkpoints/last/iteration-00000001-00000000.safetensors.tmp"),
)
"""Files beside the runs, most of them named as files of a run."""


def main() -> None:
    """Kill as often as asked, and print what came of it."""
    options = kill.parse(__doc__, kills=200, per_run=20)
    with lost_output(options.directory) as (output, kind):
        tally = kill.repeat(options, partial(run_with_kills, output=output))
    print(
        f"{tally['kills']} kills in {tally['runs']} runs with their output on {kind}: each went on and ended as the "
        "undisturbed one, and no foreign file changed."
    )


def run_with_kills(directory: Path, seed: int, kills: int, output: int) -> Counter[str]:
    """Train once undisturbed and once with kills and lost output; return how many there were and what they met.

    Raises:
        LostError: something was lost, the two runs differ, or a foreign file changed.
    """
    from longstride.training.run_directory.directory import RunDirectory

    rng, tally = random.Random(seed), Counter(runs=1)
    arguments = [*kill.SMALL, "--seed", str(seed), "--training-episodes", str(kill.ITERATIONS_PER_KILL * kills)]
    undisturbed, killed = directory / "undisturbed", directory / "killed"
    digest = make_foreign(directory / "foreign")
    kill.finish(kill.start(undisturbed, arguments))
    for _ in range(kills):
        code = kill_once(killed, arguments, output, rng, tally)
        if code == 0:
            break
    else:
        code = start(killed, arguments, output).wait(600)
    if code != 0:
        raise LostError(f"{killed} ended with exit code {code}")
    kill.compare(undisturbed, killed)
    said = RunDirectory(killed).messages
    if not said.is_file() or "Standard output cannot be written" not in said.read_text():
        raise LostError(f"{said} does not say that output is lost")
    if digest_of(directory / "foreign") != digest:
        raise LostError(f"a file in {directory / 'foreign'} has changed")
    return tally


def kill_once(directory: Path, arguments: list[str], output: int, rng: random.Random, tally: Counter[str]) -> int:
    """Start or continue a run and kill it at a random moment; return its exit code."""
    before, unfinished = kill.last_iteration(directory), kill.half_written(directory)
    process = start(directory, arguments, output)
    starting = rng.random() < 0.1
    while not starting and process.poll() is None and kill.last_iteration(directory) <= before:
        time.sleep(0.02)
    with suppress(subprocess.TimeoutExpired):
        process.wait(rng.uniform(0.0, 4.0 if starting else kill.LIFE))
    process.kill()
    code = process.wait()
    if code not in (0, -9):
        raise LostError(f"{directory} ended with exit code {code}")
    after = kill.last_iteration(directory)
    if after < before - 1:
        raise LostError(f"{directory} had {before} iterations and has {after}")
    moment = "while_a_checkpoint_was_written" if kill.half_written(directory) - unfinished else "between"
    tally.update(["kills", "while_it_started" if after <= before else moment] if code else [])
    return code


def start(directory: Path, arguments: list[str], output: int) -> "subprocess.Popen[bytes]":
    """Begin or go on with a run on a slow disk whose output cannot be written."""
    from longstride.training.run_directory.directory import RunDirectory

    resume = ["--resume"] if RunDirectory(directory).holds_run() else []
    child = [sys.executable, kill.__file__, "--child", "slow", "--mode", "train"]
    command = [*child, "--run-directory", str(directory), *arguments, *resume]
    return subprocess.Popen(command, stdout=output, stderr=output)


@contextmanager
def lost_output(directory: Path) -> Iterator[tuple[int, str]]:
    """Yield a descriptor that takes nothing, and what it is: a file on a full disk, or a pipe without a reader."""
    disk = directory / "full-disk"
    disk.mkdir(parents=True)
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "none", str(disk)]
    if os.geteuid() or subprocess.run(mount, capture_output=True).returncode:
        read, write = os.pipe()
        os.close(read)
        yield write, "a pipe without a reader"
        os.close(write)
        return
    output = os.open(disk / "log.txt", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    try:
        with suppress(OSError):
            while os.write(output, bytes(4096)):
                pass
        yield output, "a full disk"
    finally:
        os.close(output)
        subprocess.run(["umount", "-l", str(disk)], check=True)


def make_foreign(folder: Path) -> str:
    """Fill a folder with foreign files and return its digest."""
    for number, name in enumerate(FOREIGN):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(f"foreign {number}\n".encode() * 100)
    return digest_of(folder)


def digest_of(folder: Path) -> str:
    """Return the SHA-256 of the names, times and contents below a folder."""
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        content = path.read_bytes() if path.is_file() else b""
        digest.update(repr((str(path.relative_to(folder)), path.lstat().st_mtime_ns, content)).encode())
    return digest.hexdigest()


if __name__ == "__main__":
    main()
