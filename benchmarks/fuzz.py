"""Damaged and hostile input: scenarios, event logs, checkpoints, hyperparameters; refused in a sentence, or read.

Valid inputs are mutated, by structure (values of JSON and of a checkpoint's facts, cells, attributes) and by bytes;
Hypothesis draws the mutations and shrinks what fails. A failure is any exception but UserError, more than 10 s for one
input, or more memory than `--memory` GB beside what Python has at the start.
Usage: python benchmarks/fuzz.py [--inputs 20000] [--only KIND ...] [--seed 0] [--memory 2]
       python benchmarks/fuzz.py --coverage KIND --seconds 600
The second lets Atheris (pip install atheris) choose changes of bytes by the branches of the program that they reach.
"""

import argparse
import copy
import json
import resource
import signal
import struct
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

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from core.config import Config, load_config
from core.errors import UserError
from core.hardware.types import Machine
from core.simulators.loading import bundled_scenarios, from_source, load_simulator
from core.simulators.process.event_logs.event_log import read_event_log
from core.simulators.process.event_logs.mine_scenario import mine_scenario
from core.simulators.process.scenario_file import load_scenario
from core.simulators.process.simulator import ProcessSimulator
from core.training.build.components import build_trainer
from core.training.build.plan import plan_run
from core.training.build.setup import set_up
from core.training.resume import resume_run
from core.training.run_directory.checkpoint import load_run, save_checkpoint, seal, unseal

SECONDS = 10
ODD = [None, True, 0, -1, 1, 3, 1e-308, 1e308, 1e18, -0.5, 2**63, 10**40, float("nan"), float("inf")]
ODD += ["", "x", "0", "\x00", "é" * 50, [], {}, [[]], [0], {"task": "A"}, {"x": {}}, ["25:99", "24:00"], "lognormal"]
TOKENS = [
    b"",
    b",",
    b'"',
    b"\n",
    b"\r",
    b"\x00",
    b"\xff\xfe",
    b"NaN",
    b"1e999",
    b"-1",
    b"9999-12-31T23:59:59+14:00",
    b";",
]
TOKENS += [
    b"0001-01-01",
    b"1970-01-01T00:00:00Z",
    b"<event>",
    b"</trace>",
    b'<!DOCTYPE x [<!ENTITY a "a">]>',
    b"&a;",
    b"{",
    b"[",
]
LOG = "case,activity,resource,start,end\n" + "".join(
    f"c{i},{task},r{i % 3},2024-01-0{1 + i % 7}T0{8 + k}:00:00,2024-01-0{1 + i % 7}T0{8 + k}:40:00\n"
    for i in range(12)
    for k, task in enumerate(("open", "close"))
)
EVENT = (
    '<event><string key="concept:name" value="{}"/><string key="org:resource" value="r{}"/>'
    '<date key="start_timestamp" value="2024-01-0{}T0{}:10:00+01:00"/>'
    '<date key="time:timestamp" value="2024-01-0{}T0{}:30:00+01:00"/></event>'
)


def xes() -> bytes:
    """Return a small event log in XES."""

    def event(name: str, i: int, hour: int) -> str:
        return EVENT.format(name, i % 3, 1 + i % 7, hour, 1 + i % 7, hour)

    traces = "".join(
        f'<trace><string key="concept:name" value="c{i}"/>{event("open", i, 8)}{event("close", i + 1, 9)}</trace>'
        for i in range(12)
    )
    return f'<?xml version="1.0"?><log xes.version="1.0">{traces}</log>'.encode()


def ocel() -> bytes:
    """Return a small object-centric event log in JSON."""
    events = [
        {
            "id": f"e{i}{name}",
            "type": name,
            "time": f"2024-01-0{1 + i % 7}T09:{30 + 5 * k}:00Z",
            "attributes": [{"name": "start_timestamp", "value": f"2024-01-0{1 + i % 7}T09:{10 + 5 * k}:00Z"}],
            "relationships": [{"objectId": f"o{i}"}, {"objectId": f"r{i % 3}"}],
        }
        for i in range(12)
        for k, name in enumerate(("open", "close"))
    ]
    things = [{"id": f"o{i}", "type": "orders"} for i in range(12)]
    return json.dumps(
        {"events": events, "objects": things + [{"id": f"r{i}", "type": "employees"} for i in range(3)]}
    ).encode()


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
    loaded = load_simulator("cartpole", "", "", "", "weekly")
    machine = Machine(physical_cores=1, usable_cores=1, total_bytes=2**34, free_bytes=2**34)
    setup = set_up(config, loaded.simulator, loaded.source)
    built = build_trainer(setup, plan_run(setup, machine), Path("runs/fuzz"))
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
    load_config(None, {str(name): str(value).replace("None", "") for name, value in values.items()})


KINDS: dict[str, tuple[Callable[[], bytes], Callable[[bytes, Path], None]]] = {
    "scenario": (lambda: bundled_scenarios()["loan_desk"].read_bytes(), read_scenario),
    "csv": (LOG.encode, read_log("log.csv")),
    "xes": (xes, read_log("log.xes")),
    "ocel": (ocel, read_log("log.json")),
    "checkpoint": (checkpoint_content, read_checkpoint),
    "hyperparameters": (lambda: Config().model_dump_json().encode(), read_values),
}


def mutate(random: Random, content: bytes, by_bytes: bool = True) -> bytes:
    """Return an input that is not what it was, in one to four places."""
    for _ in range(random.randint(1, 4)):
        change = random.choice([change_json, change_json, change_bytes if by_bytes else change_json])
        content = change(random, content)
    return content


def change_json(random: Random, content: bytes) -> bytes:
    """Change one value of the JSON before a NUL, or of a safetensors header behind it; bytes where there is none."""
    head, nul, tail = content.partition(b"\0")
    if nul and len(tail) > 8 and random.random() < 0.5:
        size = struct.unpack("<Q", tail[:8])[0]
        header = change_json(random, tail[8 : 8 + size]) if size < len(tail) else tail[8:]
        length = (
            len(header) if random.random() < 0.8 else random.choice([0, 2**63, 2**64 - 1, min(size + 1, 2**64 - 1)])
        )
        return head + nul + struct.pack("<Q", length) + header + tail[8 + size :]
    try:
        data = json.loads(head)
    except (ValueError, RecursionError):
        return change_bytes(random, content)
    holder, key = random.choice(list(places({"": data})))
    what = random.randint(0, 4)
    if what == 0 and isinstance(holder, dict):
        del holder[key]
    elif what == 1 and isinstance(holder, dict):
        holder[random.choice(["x", "rate", "flow", "end", "dtype"])] = copy.deepcopy(random.choice(ODD))
    elif what == 2 and isinstance(holder, list):
        holder.append(copy.deepcopy(holder[key]))
    elif what == 3 and isinstance(holder[key], int | float):
        holder[key] = holder[key] * random.choice([-1, 0, 1e-9, 1e9, 1e30])
    else:
        holder[key] = copy.deepcopy(random.choice(ODD))
    return json.dumps(data.get("") if isinstance(data, dict) and set(data) == {""} else data).encode() + nul + tail


def places(data):
    """Yield every (container, key) of nested lists and dictionaries."""
    for key, value in data.items() if isinstance(data, dict) else enumerate(data):
        yield data, key
        if isinstance(value, dict | list):
            yield from places(value)


def change_bytes(random: Random, content: bytes) -> bytes:
    """Flip, cut, repeat, insert or nest."""
    at, what = random.randint(0, len(content)), random.randint(0, 5)
    until = min(len(content), at + random.choice([1, 2, 8, 64, 1024]))
    if what == 0:
        return content[:at] + bytes(b ^ (1 << random.randint(0, 7)) for b in content[at : at + 1]) + content[at + 1 :]
    if what == 1:
        return content[:at]
    if what == 2:
        return content[:at] + content[at:until] * random.choice([0, 2, 50]) + content[until:]
    if what == 3:
        return content[:at] + b"[" * random.choice([10, 100_000]) + content[at:]
    end = until if what == 4 else at
    return content[:at] + random.choice(TOKENS) + content[end:]


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
        try_input(kind, mutate(random, valid, kind != "hyperparameters"), outcomes)

    signal.signal(signal.SIGALRM, _too_long)
    one()
    return outcomes


def cover(kind: str, seconds: int) -> None:
    """Let Atheris look for inputs that fail; ends the process, with libFuzzer's figures."""
    import atheris

    for name, module in list(sys.modules.items()):
        for key, value in (
            list(vars(module).items()) if name.startswith(("core.simulators.process", "core.training")) else ()
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


def _too_long(number: int, frame: object) -> None:
    raise TimeoutError(f"one input took more than {SECONDS} s")


def main() -> None:
    """Fuzz and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--inputs", type=int, default=20_000)
    parser.add_argument("--only", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--memory", type=float, default=2.0)
    parser.add_argument("--coverage", choices=KINDS)
    parser.add_argument("--seconds", type=int, default=600)
    options = parser.parse_args()
    if options.coverage:
        cover(options.coverage, options.seconds)
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
