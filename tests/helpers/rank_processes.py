"""Processes for tests of ranks: children of one server that has imported torch and the program once."""

import multiprocessing
import os
import pickle
import signal
import socket
import sys
import traceback
from pathlib import Path

CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(["helpers.rank_processes", "longstride.training.assembly.run", "longstride.cli"])


def free_port():
    """Return a port that nobody uses now."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def pass_on_path():
    """Let the server import what this process can."""
    os.environ["PYTHONPATH"] = os.pathsep.join(dict.fromkeys([*sys.path, os.environ.get("PYTHONPATH", "")]))


def set_place(rank, size, port):
    """Set the variables that torchrun sets."""
    names = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": size, "LOCAL_WORLD_SIZE": size, "MASTER_PORT": port}
    os.environ |= {name: str(value) for name, value in names.items()} | {"MASTER_ADDR": "127.0.0.1"}


def _run(function, rank, folder, arguments):
    sys.modules["torch.utils.tensorboard"] = sys.modules["matplotlib"] = None  # their imports take seconds
    try:
        result = function(rank, folder, *arguments)
    except BaseException:
        result = traceback.format_exc()
        print(result, file=sys.stderr)
    (folder / f"result-{rank}").write_bytes(pickle.dumps(result))


def in_processes(function, size, folder: Path, *arguments, seconds=900):
    """Return what ``function(rank, folder, *arguments)`` returns in each of some processes."""
    pass_on_path()
    folder.mkdir(parents=True, exist_ok=True)
    children = [CONTEXT.Process(target=_run, args=(function, rank, folder, arguments)) for rank in range(size)]
    for child in children:
        child.start()
    for child in children:
        child.join(seconds)
        if child.is_alive():
            child.kill()
    return [pickle.loads((folder / f"result-{rank}").read_bytes()) for rank in range(size)]


def train_and_die(arguments, dies_before, output):
    """Be a rank of a training by the command line; the second one kills itself before an iteration, the first time.

    What it prints goes to a file for each rank, since the server has the output of whoever started it.
    """
    with open(f"{output}-{os.environ['RANK']}", "a") as printed:
        os.dup2(printed.fileno(), 1)
        os.dup2(printed.fileno(), 2)
    sys.modules["torch.utils.tensorboard"] = sys.modules["matplotlib"] = None
    from longstride.cli import main
    from longstride.training.trainer import Trainer

    run_iteration = Trainer.run_iteration

    def killed(trainer, progress):
        first_time = os.environ["TORCHELASTIC_RESTART_COUNT"] == "0"
        if first_time and os.environ["RANK"] == "1" and trainer.iteration + 1 == dies_before:
            os.kill(os.getpid(), signal.SIGKILL)
        return run_iteration(trainer, progress)

    Trainer.run_iteration = killed
    code = main(arguments)
    sys.stdout.flush()
    if code:
        raise SystemExit(code)
