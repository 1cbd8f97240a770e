"""The parts of the report in their order, and what each of them gets. Nothing here imports torch."""

from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

Figures = dict[str, Any]
"""JSON values that a part measured."""


class Task(NamedTuple):
    """What a part gets.

    Attributes:
        device: ``"cuda"``, or ``"cpu"`` in a rehearsal.
        small: whether sizes are those of a rehearsal, whose figures mean nothing.
        directory: a folder of its own.
        keep: function that keeps the figures so far, in case the part does not end.
    """

    device: str
    small: bool
    directory: Path
    keep: Callable[[Figures], None]


class Part(NamedTuple):
    """A part, which runs in a process of its own.

    Attributes:
        name: name on the command line.
        title: what it measures, a heading.
        seconds: time limit.
        module: module with ``measure(task, **arguments)``, which returns figures, and
            ``lines(figures)``, which returns them as Markdown.
        arguments: of ``measure``.
        needs_gpu: whether it is skipped without a GPU.
        rehearses: whether ``--rehearse`` runs it on the CPU.
        packages: what must be installed beside torch, NumPy and Numba.
        cards: how many GPUs it needs, if it needs any.
    """

    name: str
    title: str
    seconds: int
    module: str
    arguments: Mapping[str, Any] = MappingProxyType({})
    needs_gpu: bool = True
    rehearses: bool = True
    packages: tuple[str, ...] = ()
    cards: int = 1


_HERE = "benchmarks.gpu_report."

COMMAND_LINE = ("pydantic", "rich", "safetensors")
"""Packages of ``longstride``, the command."""

EXECUTION_TESTS = "tests/learning/steps/test_gpu_execution.py"

MEMORY_TESTS = "tests/learning/step_costs/test_gpu_memory.py"


def _tests(name: str, title: str, seconds: int, *arguments: str, packages: tuple[str, ...] = ()) -> Part:
    """Return a part that runs tests; those of a GPU have nothing to do on a CPU."""
    values = {"arguments": arguments}
    return Part(name, title, seconds, _HERE + "gpu_tests", values, rehearses=False, packages=("pytest", *packages))


def _training(name: str, title: str, seconds: int, *flags: str, small: tuple[str, ...] = ()) -> Part:
    """Return a part that trains; a rehearsal has small flags of its own, and these."""
    return Part(name, title, seconds, _HERE + "training", {"flags": flags, "small": small}, packages=COMMAND_LINE)


ONE_LONG_EPISODE = ("--num-envs", "1", "--num-epochs", "10", "--target-kl", "0", "--training-episodes", "6")
"""One episode of the loan desk, 62,000 single observations, and ten passes over it."""

CARTPOLE = ("--simulator", "cartpole", "--target-kl", "0", "--training-episodes", "4")

PARTS = (
    Part("machine", "Imports, compiler and copies over the bus", 60, _HERE + "machine", needs_gpu=False),
    Part("counts", "Launches, products and bytes of a step, counted", 60, _HERE + "counts", needs_gpu=False),
    _training(
        *("kernels", "Kernels of the CPU: compiled before anything is timed", 240),
        *("--num-envs", "1", "--num-epochs", "1", "--target-kl", "0", "--training-episodes", "1"),
    ),
    _tests(
        "machine_tests",
        "Tests of the machine",
        60,
        "tests/hardware/test_gpu_machine.py",
        "tests/hardware/test_gpu_sampler.py",
    ),
    _tests("updater_tests", "Tests of the updater", 90, "tests/learning/test_gpu.py"),
    _tests("replay_tests", "Tests: replays are eager steps to the bit", 60, EXECUTION_TESTS, "-k", "replays"),
    _tests(
        "execution_tests",
        "Tests: captured steps leave no trace, whole updates, memory that runs out",
        120,
        EXECUTION_TESTS,
        "-k",
        "trace or whole or waits or skipped or memory",
    ),
    Part("profile", "Kernels of a step, counted by torch.profiler", 75, _HERE + "profile_step"),
    Part(
        "steps", "Milliseconds a step: eager and captured", 90, _HERE + "step_times", {"executions": ("eager", "graph")}
    ),
    Part(
        "compiled_steps",
        "Milliseconds a step: compiled by torch",
        240,
        _HERE + "step_times",
        {"executions": ("eager", "torch_compile", "torch_compile_graph")},
    ),
    _tests(
        "compile_tests", "Tests: compiled gradients, the choice", 240, EXECUTION_TESTS, "-k", "gradients or choice_is"
    ),
    _training(
        *("train_graph", "Training, captured: minibatches of 32,768", 90),
        *(*ONE_LONG_EPISODE, "--batch-size", "32768", "--update-execution", "graph"),
    ),
    _training(
        *("train_compile_graph", "Training, compiled and captured: minibatches of 32,768", 120),
        *(*ONE_LONG_EPISODE, "--batch-size", "32768", "--update-execution", "torch_compile_graph"),
    ),
    Part("capture_failure", "A failure inside a capture", 45, _HERE + "capture_failure"),
    Part("memory", "Memory of a step beside its prediction", 60, _HERE + "memory"),
    _tests("memory_tests", "Tests: memory is as predicted", 45, MEMORY_TESTS),
    Part("constants", "Seconds of a launch and of an operation in a graph", 45, _HERE + "constants"),
    _training("guide", "The guide's row: minibatches of up to 65,536", 120, *ONE_LONG_EPISODE, "--batch-size", "65536"),
    _training(
        "defaults", "Training with the defaults, the execution chosen by trying", 150, "--training-episodes", "4"
    ),
    Part("collect_on", "Steps a second of the compiled loop, and of a policy on the card", 150, _HERE + "collect_on"),
    _training(
        *("memory_policies", "Training of a minGRU", 150, *CARTPOLE, "--policy-network", "mingru", "--num-envs", "256"),
        *("--rollout-steps", "128", "--batch-size", "32768", "--num-epochs", "4"),
        small=("--policy-network", "mingru", "--rollout-steps", "64"),
    ),
    _training(
        *("large_transformer", "Training of a large transformer, and its MFU", 190, *CARTPOLE),
        *("--preset", "large_transformer", "--num-epochs", "1"),
        small=("--policy-network", "transformer", "--attention-heads", "2", "--rollout-steps", "64"),
    ),
    Part("two_ranks", "A run on two cards ends", 150, _HERE + "two_ranks", packages=COMMAND_LINE, cards=2),
    Part("precision", "Learning in BF16 beside FP32", 150, _HERE + "precision", packages=COMMAND_LINE),
    Part(
        *("peers", "The usual trainers on this machine's CPU", 180, _HERE + "usual_trainers"),
        packages=("scipy", "psutil", "gymnasium"),
    ),
)
"""In the order in which a first card is looked at: what may be broken comes before what is slow."""

BY_NAME = {part.name: part for part in PARTS}
