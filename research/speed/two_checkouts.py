"""The kernels of `benchmarks/check.py` in several checkouts, in turns: what a change costs, to about 1 %.

Each checkout has a process of its own. They take turns, in the other order in every second round, so that what slows
the machine slows all of them. A ratio is the median over rounds of the CPU time in a checkout over that in the first.
Where code and data lie in memory alone changes it by 1 or 2 %, hence the repeats, each in new processes.
Usage: python research/speed/two_checkouts.py BEFORE AFTER [--kernels simulator] [--rounds 25] [--repeats 3]
"""

import argparse
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

NAMES = "simulator", "fused loop", "forward pass"


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print a table for each repeat."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkouts", nargs="+", type=Path, metavar="CHECKOUT")
    parser.add_argument("--kernels", nargs="+", default=NAMES, help="names as in the table of benchmarks/check.py")
    parser.add_argument("--rounds", type=int, default=25)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    checkouts = [path.resolve() for path in options.checkouts]
    if options.serve:
        serve(checkouts[0])
        return
    print(f"{'':16}{'checkout':32}{'us':>10}{'ratio':>8}")
    for _ in range(options.repeats):
        workers = [start(checkout) for checkout in checkouts]
        for name in options.kernels:
            times = in_turns(workers, name, options.rounds)
            for checkout, own in zip(checkouts, times, strict=True):
                ratio = statistics.median(a / b for a, b in zip(own, times[0], strict=True))
                print(f"{name:16}{checkout.name[:31]:32}{1e6 * statistics.median(own):10.4g}{ratio:8.3f}", flush=True)
        for worker in workers:
            worker.communicate()


def start(checkout: Path) -> "subprocess.Popen[str]":
    """Return a process that measures the kernels of a checkout, one call for each line that it reads."""
    source = {"PYTHONPATH": str(checkout / "src" / "core"), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, __file__, "--serve", str(checkout)]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env={**os.environ, **source}, cwd=checkout)


def in_turns(workers: "Sequence[subprocess.Popen[str]]", name: str, rounds: int) -> list[list[float]]:
    """Return CPU seconds a unit, for each process and round; the first call of each is not counted."""
    times: list[list[float]] = [[] for _ in workers]
    for turn in range(rounds + 1):
        order = range(len(workers)) if turn % 2 else reversed(range(len(workers)))
        for k in order:
            ask, answer = workers[k].stdin, workers[k].stdout
            assert ask is not None and answer is not None
            print(name, file=ask, flush=True)
            line = answer.readline()
            if not line:
                raise SystemExit(f"The process of {workers[k].args} ended.")
            if turn:
                times[k].append(float(line))
    return times


def serve(checkout: Path) -> None:
    """Answer each name of a kernel with the CPU seconds of a unit, mean of two calls."""
    sys.path.insert(0, str(checkout / "benchmarks"))
    import check

    work = check.kernels()
    for line in sys.stdin:
        call, units = work[line.strip()]
        begin = time.process_time()
        for _ in range(2):
            call()
        print((time.process_time() - begin) / 2 / units, flush=True)


if __name__ == "__main__":
    main()
