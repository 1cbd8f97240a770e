"""Damaged and hostile input: scenarios, event logs, checkpoints, hyperparameters; refused in a sentence, or read.

Valid inputs are mutated, by structure (values of JSON and of a checkpoint's facts, cells, attributes, parts of a
workbook) and by bytes. A failure is any exception but UserError, the end of the process, more than 10 s for one input,
or more memory than `--memory` GB beside what Python has at the start.
Usage: python benchmarks/fuzz.py [--inputs 20000] [--only KIND ...] [--seed 0] [--memory 2]
       python benchmarks/fuzz.py --many 1000000 --processes 2 --failures FOLDER
       python benchmarks/fuzz.py --coverage KIND --seconds 600
The first lets Hypothesis draw the mutations and shrink what fails. The second divides a number of inputs among the
kinds and goes on after a failure, which it saves; event logs are only read, not mined. The third lets Atheris
(pip install atheris) choose changes of bytes by the branches of the program that they reach.
"""

import argparse
import json
import resource
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from random import Random
from types import FunctionType

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src" / "core"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from benchmarks import fuzz_many, fuzz_tables
from benchmarks.fuzz_inputs import LOG, mutate, mutate_values, ocel, xes
from longstride.config import Config
from longstride.errors import UserError
from longstride.hardware.types import Machine
from longstride.process.event_logs.event_log import read_event_log
from longstride.process.load import bundled_scenarios
from longstride.process.mining.mine_scenario import mine_scenario
from longstride.process.scenario_file import load_scenario
from longstride.process.simulator import ProcessSimulator
from longstride.settings import Settings, load_settings
from longstride.simulators.loading import from_source, load_simulator
from longstride.training.assembly.components import build_trainer
from longstride.training.assembly.plan import plan_run
from longstride.training.assembly.setup import set_up
from longstride.training.resume import resume_run
from longstride.training.run_directory.checkpoint import load_run, save_checkpoint, seal, unseal
from longstride.training.run_directory.checkpoint_writer import CheckpointWriter
from longstride.training.run_directory.directory import RunDirectory
from longstride.training.settings import Services

SECONDS = 10


class TooLongError(BaseException):
    """An input took too long; not an Exception, which a library may take for a fault of the file."""


def read_scenario(content: bytes, folder: Path) -> None:
    """Read a scenario and build its simulator."""
    (folder / "scenario.json").write_bytes(content)
    ProcessSimulator(load_scenario(folder / "scenario.json"))


def read_log(name: str) -> Callable[[bytes, Path], None]:
    """Return what reads an event log, mines it and builds its simulator."""

    def read(content: bytes, folder: Path) -> None:
        (folder / name).write_bytes(content)
        ProcessSimulator(mine_scenario(read_event_log(folder / name), name="log").scenario)

    return read


@cache
def trainer():
    """Return the trainer of a tiny run and a checkpoint of it: facts, and the bytes of the tensors."""
    small = {"actor_hidden_size": 4, "critic_hidden_size": 4, "num_hidden_layers": 1, "rollout_steps": 8}
    config = Config(simulator="cartpole", device="cpu", **small)
    loaded = load_simulator("cartpole")
    machine = Machine(physical_cores=1, usable_cores=1, total_bytes=2**34, free_bytes=2**34)
    setup = set_up(Settings(config), loaded)
    folder = Path("runs/fuzz")
    built = build_trainer(setup, plan_run(setup, machine), folder, Services(CheckpointWriter(RunDirectory(folder))))
    with tempfile.TemporaryDirectory() as folder:
        save_checkpoint(Path(folder), *built.state_dict())
        (facts,), (tensors,) = Path(folder).glob("*.json"), Path(folder).glob("*.safetensors")
        return built, unseal(facts.read_bytes()), tensors.read_bytes()


def checkpoint_content() -> bytes:
    """Return facts, a NUL, and tensors."""
    _, facts, tensors = trainer()
    return json.dumps(facts).encode() + b"\0" + tensors


def read_checkpoint(content: bytes, folder: Path) -> None:
    """Read a checkpoint whose digests are right, go on from it, and build the simulator that it names."""
    import hashlib

    text, _, tensors = content.partition(b"\0")
    try:
        facts = json.loads(text)
    except (ValueError, RecursionError):
        facts = None
    (folder / "t.safetensors").write_bytes(tensors)
    if isinstance(facts, dict):
        named = {"tensors": "t.safetensors", "tensors_sha256": hashlib.sha256(tensors).hexdigest()}
        text = seal({**facts, **named}) if facts.get("tensors") else seal(facts)
    (folder / "iteration-00000000.json").write_bytes(text)
    _, facts = load_run(folder, lambda sentence: None)
    resume_run(trainer()[0], folder, lambda sentence: None)
    if str(facts["source"].get("simulator") if isinstance(facts["source"], dict) else "") in ("cartpole", "process"):
        from_source(facts["source"])


def read_values(content: bytes, folder: Path) -> None:
    """Read hyperparameters as flags give them: text."""
    values = json.loads(content)
    if not isinstance(values, dict):
        raise UserError("not what flags can give")
    values.pop("simulator_options", None)
    load_settings(None, {str(name): str(value).replace("None", "") for name, value in values.items()})


LOGS = (*fuzz_tables.KINDS, "csv", "xes", "ocel")
KINDS: dict[str, tuple[Callable[[], bytes], Callable[[bytes, Path], None]]] = {
    "scenario": (lambda: bundled_scenarios()["loan_desk"].read_bytes(), read_scenario),
    "csv": (LOG.encode, read_log("log.csv")),
    "xes": (xes, read_log("log.xes")),
    "ocel": (ocel, read_log("log.json")),
    "checkpoint": (checkpoint_content, read_checkpoint),
    "hyperparameters": (lambda: Config().model_dump_json().encode(), read_values),
    **{kind: (valid, read_log("log")) for kind, (valid, _) in fuzz_tables.KINDS.items()},
}
MUTATIONS: dict[str, Callable[[Random, bytes], bytes]] = {
    "hyperparameters": mutate_values,
    **{kind: change for kind, (_, change) in fuzz_tables.KINDS.items()},
}


def try_input(kind: str, content: bytes, outcomes: Counter) -> None:
    """Read an input.

    Raises:
        Exception: anything but a sentence for the user.
    """
    with tempfile.TemporaryDirectory() as folder:
        signal.alarm(SECONDS)
        try:
            KINDS[kind][1](content, Path(folder))
            outcomes["read"] += 1
        except UserError:
            outcomes["refused"] += 1
        finally:
            signal.alarm(0)


def fuzz(kind: str, inputs: int, number: int = 0) -> Counter:
    """Try mutated inputs of a kind; return how many were read and how many refused.

    Raises:
        Exception: of the smallest input found that fails.
    """
    outcomes, valid, first = Counter(), KINDS[kind][0](), Counter()
    try_input(kind, valid, first)
    if not first["read"]:
        raise AssertionError(f"the valid {kind} is refused")

    @seed(number)
    @settings(
        max_examples=inputs,
        deadline=None,
        database=None,
        phases=(Phase.generate, Phase.shrink),
        suppress_health_check=list(HealthCheck),
    )
    @given(st.randoms(use_true_random=False))
    def one(random: Random) -> None:
        try_input(kind, MUTATIONS.get(kind, mutate)(random, valid), outcomes)

    signal.signal(signal.SIGALRM, _too_long)
    one()
    return outcomes


def cover(kind: str, seconds: int) -> None:
    """Let Atheris look for inputs that fail; ends the process, with libFuzzer's figures."""
    import atheris

    for name, module in list(sys.modules.items()):
        for key, value in (
            list(vars(module).items()) if name.startswith(("longstride.process", "longstride.training")) else ()
        ):
            if isinstance(value, FunctionType) and value.__module__ == name:
                setattr(module, key, atheris.instrument_func(value))

    def one(content: bytes) -> None:
        with tempfile.TemporaryDirectory() as folder, suppress(UserError):
            KINDS[kind][1](content, Path(folder))

    with tempfile.TemporaryDirectory() as corpus:
        (Path(corpus) / "valid").write_bytes(KINDS[kind][0]())
        limits = [f"-max_total_time={seconds}", f"-timeout={SECONDS}", "-rss_limit_mb=4096", "-max_len=65536"]
        atheris.Setup([sys.argv[0], *limits, corpus], one)
        atheris.Fuzz()


def read_only(content: bytes, folder: Path) -> None:
    """Read an event log without mining it."""
    (folder / "log").write_bytes(content)
    read_event_log(folder / "log")


def _too_long(number: int, frame: object) -> None:
    raise TooLongError(f"one input took more than {SECONDS} s")


def main() -> None:
    """Fuzz and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--inputs", type=int, default=20_000)
    parser.add_argument("--only", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--memory", type=float, default=2.0)
    parser.add_argument("--coverage", choices=KINDS)
    parser.add_argument("--seconds", type=int, default=600)
    parser.add_argument("--many", type=int, default=0)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--failures", type=Path, default=Path("runs/fuzz_failures"))
    options = parser.parse_args()
    if options.coverage:
        cover(options.coverage, options.seconds)
    if options.many:
        kinds = {
            kind: (KINDS[kind][0](), read_only if kind in LOGS else KINDS[kind][1], MUTATIONS.get(kind, mutate))
            for kind in options.only
        }
        limits = fuzz_many.Limits(SECONDS, options.memory)
        sys.exit(fuzz_many.run(kinds, options.many, options.seed, options.processes, options.failures, limits))
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + int(options.memory * 1e9),) * 2)
    for kind in options.only:
        begin = time.perf_counter()
        outcomes = fuzz(kind, options.inputs, options.seed)
        print(
            f"{kind}: {outcomes['read']:,} read, {outcomes['refused']:,} refused, {time.perf_counter() - begin:.0f} s"
        )


if __name__ == "__main__":
    main()
