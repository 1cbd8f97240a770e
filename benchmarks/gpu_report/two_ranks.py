"""A training of two processes, by torchrun: it ends, with captured and with eager steps (NCCL waits for graphs)."""

import subprocess
import time

from benchmarks.gpu_report.markdown import table
from benchmarks.gpu_report.parts import Figures, Task
from benchmarks.gpu_report.process import ROOT, environment, python

FLAGS = (
    *("--mode", "train", "--simulator", "cartpole", "--num-envs", "2", "--rollout-steps", "4096"),
    *("--training-episodes", "3", "--no-report"),
)
SMALL = ("--rollout-steps", "64", "--actor-hidden-size", "8", "--critic-hidden-size", "8", "--batch-size", "64")


def measure(task: Task) -> Figures:
    """Train once for each execution; one that does not end is the part's time limit."""
    rows: list[Figures] = []
    for execution in ("graph", "eager") if task.device == "cuda" else ("eager",):
        directory, more = task.directory / execution, SMALL if task.small else ()
        flags = *FLAGS, *more, "--update-execution", execution, "--device", task.device
        command = python("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")
        command += [str(ROOT / "scripts" / "train.py"), *flags, "--run-directory", str(directory)]
        begin = time.perf_counter()
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment())
        print(done.stdout, flush=True)
        rows.append({"execution": execution, "code": done.returncode, "seconds": time.perf_counter() - begin})
        task.keep({"rows": rows})
    failed = [row["execution"] for row in rows if row["code"]]
    return {"rows": rows, "problem": f"two ranks failed with {failed[0]} steps" if failed else ""}


def lines(figures: Figures) -> list[str]:
    """Return the figures as Markdown."""
    rows = [(row["execution"], row["code"], f"{row['seconds']:.1f}") for row in figures["rows"]]
    return table(("execution", "exit code", "seconds"), rows)
