"""A round of training on LongQueue, measured: seconds of its phases and the memory that it takes, beside the plan's.

Everything is the product's own: the plan of the settings, the trainer that it builds, whole rounds of it. Memory is the
peak of what the process has in memory (VmHWM of Linux, which is set back before the first round) beyond what it has
after compilation, so each measurement wants a process of its own: :func:`in_a_process`.
"""

import gc
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src" / "core"))

from rich.console import Console

from benchmarks.long_queue import LongQueue
from longstride.commands.plan.report import make_report
from longstride.config import Config
from longstride.hardware.detect import detect_machine
from longstride.settings import Settings
from longstride.simulators.loading import LoadedSimulator
from longstride.training.assembly.components import build_trainer
from longstride.training.assembly.plan import apply_plan
from longstride.training.assembly.setup import set_up
from longstride.training.display.progress import Progress
from longstride.training.run_directory.checkpoint_writer import CheckpointWriter
from longstride.training.run_directory.directory import RunDirectory
from longstride.training.settings import Services
from longstride.training.trainer import Trainer

_STATUS, _PEAK_AGAIN = Path("/proc/self/status"), Path("/proc/self/clear_refs")


def in_a_process(episode: int, rounds: int, with_floor: bool = False, **settings: Any) -> dict[str, Any]:
    """Return what :func:`measure` finds in a fresh process."""
    command = [sys.executable, __file__, json.dumps([episode, rounds, with_floor, settings])]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def measure(episode: int, rounds: int, with_floor: bool, settings: dict[str, Any]) -> dict[str, Any]:
    """Train for some rounds of one epoch.

    Args:
        episode: decisions of an episode.
        rounds: of training.
        with_floor: whether the machine's rate of matrix products is measured, with an update's own shapes.
        settings: names of hyperparameters and their values, where they are not the defaults.

    Returns:
        Lists of seconds for each round: ``simulate``, ``prepare`` (all that is neither play nor steps: discounts,
        checks, values, advantages, normalisation, the digest) and ``update``; ``decisions`` of a round; bytes:
        ``held`` before the first round, ``peak`` beyond them in all rounds, ``trajectory`` and ``working`` as the plan
        predicts them; ``execution`` of the steps; and where asked ``flops`` a second.
    """
    usual = {"num_epochs": 1, "target_kl": 0.0, "batch_size": 1024}
    config = Config(device="cpu", simulator_options={"episode": episode}, **{**usual, **settings})
    trainer, report = _trainer(config, LongQueue(episode))
    compiling = trainer.collector.compile(trainer.actor_params()) + trainer.updater.compile()
    held = memory_again()
    seconds = [_round(trainer) for _ in range(rounds)]
    found = {
        "episode": episode,
        "settings": settings,
        "decisions": episode * trainer.settings.instances,
        **{phase: [each[phase] for each in seconds] for phase in seconds[0]},
        "compile": compiling,
        "held": held,
        "peak": None if held is None else memory("VmHWM") - held,
        "trajectory": report.plan.trajectory_bytes,
        "working": report.memory.peak,
        "execution": report.prediction.execution,
        "parameters": [sum(p.numel() for p in trainer.model.part_parameters(part)) for part in ("actor", "critic")],
    }
    return found | (_floor(trainer, report.plan.batch_size) if with_floor else {})


def _trainer(config: Config, simulator: LongQueue) -> tuple[Trainer, Any]:
    """Return the trainer that the settings give here, and what ``--mode plan`` says of it."""
    setup = set_up(Settings(config), LoadedSimulator(simulator, {}))
    report = make_report(setup, detect_machine())
    plan = apply_plan(report.plan, setup.spec)
    folder = Path(tempfile.gettempdir())
    return build_trainer(setup, plan, folder, Services(CheckpointWriter(RunDirectory(folder)))), report


def _round(trainer: Trainer) -> dict[str, float]:
    """Play and update once; return the seconds of its phases."""
    epochs, spent = trainer.updater._epochs, []

    def timed(*arguments: Any) -> Any:
        begin = time.perf_counter()
        try:
            return epochs(*arguments)
        finally:
            spent.append(time.perf_counter() - begin)

    trainer.updater._epochs = timed
    begin = time.perf_counter()
    record = trainer.run_iteration(Progress(Console(quiet=True), None, 0, "return"))
    whole = time.perf_counter() - begin
    trainer.updater._epochs = epochs
    simulate, update = record["simulation_seconds"], spent[0]
    return {"simulate": simulate, "prepare": whole - simulate - update, "update": update}


def _floor(trainer: Trainer, batch: int) -> dict[str, float]:
    """Return the floating-point operations of a sample's step, and how many a second the same products reach alone."""
    from cpu_steps import Row, products, times_of  # a neighbour, as this file is run

    model = trainer.model
    *libraries, operations = products(
        Row("", (model.spec.actor_sizes, model.spec.critic_sizes, model.spec.activation), batch)
    )
    seconds = min(times_of(library)[1] for library in libraries for _ in range(3))
    return {"step_operations": operations / batch, "flops": operations / seconds}


def memory(name: str) -> int:
    """Return a figure of /proc/self/status in bytes: VmRSS or VmHWM."""
    line = next(line for line in _STATUS.read_text().splitlines() if line.startswith(name))
    return int(line.split()[1]) * 1024


def memory_again() -> int | None:
    """Let the peak begin anew; return what the process has in memory now, None where the system does not say."""
    if not _PEAK_AGAIN.exists():
        return None
    gc.collect()
    _PEAK_AGAIN.write_text("5")
    return memory("VmRSS")


if __name__ == "__main__":
    print(json.dumps(measure(*json.loads(sys.argv[1]))))
