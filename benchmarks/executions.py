"""Seconds of an update's steps on a GPU: every execution in every precision, in turns, on the default network.

An epoch over so many samples of the loan desk's sizes: gather, forward, loss, backward, clipping, Adam. Precisions and
executions take turns; times are medians, and the shortest and the longest stand beside them. Preparation (compiling,
capturing) is timed apart, the first time. `python benchmarks/update.py --gpu` calls it.
"""

import time
from collections.abc import Sequence
from dataclasses import replace
from statistics import median

import numpy as np
import torch
from torch.nn.functional import pad

from longstride.hardware.detect import has_bf16
from longstride.hardware.planning.gpu_catalog import card_of
from longstride.hardware.planning.roofline import seconds
from longstride.hardware.types import Execution, Gpu, Precision
from longstride.learning.algorithms.interface import Samples
from longstride.learning.algorithms.ppo import Ppo, PpoCoefficients
from longstride.learning.device_transfer import ModelTransfer, host_allocator, synchronise
from longstride.learning.minibatches import draw_epochs, minibatch_shape
from longstride.learning.step_costs.work import step_work
from longstride.learning.step_selection.executor import Executor
from longstride.learning.steps.interface import UpdateSettings
from longstride.learning.steps.torch_step import TorchStepper
from longstride.policies.families.mlp.family import MLP
from longstride.policies.networks import ActorCritic, initialise
from longstride.policies.spec import PolicySpec
from longstride.simulators.spaces import Discrete

DESK = PolicySpec(151, Discrete(62), (128,) * 3, (256,) * 3, "relu", MLP)
DESK_WITH_FEATURES = replace(DESK, action_features=2)
EXECUTIONS: tuple[Execution, ...] = ("eager", "torch_compile", "graph", "torch_compile_graph")
NO_GPU = "Executions on a GPU: not measured, torch finds no NVIDIA GPU here."


def precisions_of(device: str) -> list[Precision]:
    """Return the number formats that are measured on a device."""
    return ["fp32", *(["bf16"] if has_bf16(device) else []), "fp16"]


def half_of(device: str) -> Precision:
    """Return the half precision that a run on a GPU takes: BF16 where the card has it."""
    return "bf16" if has_bf16(device) else "fp16"


def measure_executions(
    samples: int,
    batch: int,
    pairs: int,
    gpu: Gpu | None,
    device: str = "cuda",
    executions: Sequence[Execution] = EXECUTIONS,
    precisions: Sequence[Precision] = (),
) -> list[dict]:
    """Return a row for each precision and execution; one that fails has its problem in place of times.

    Eager steps, which the others are compared with, are among the executions; no precisions are those of the device.
    """
    formats = precisions or precisions_of(device)
    sides = {(p, e): Side(p, e, samples, batch, device) for p in formats for e in executions}
    for _ in range(pairs):
        for side in sides.values():
            side.take_a_turn()
    return [side.row(gpu, sides[precision, "eager"]) for (precision, _), side in sides.items()]


def table(rows: list[dict]) -> list[str]:
    """Return a Markdown table."""
    head = "| precision | execution | ms a step (shortest, longest) | of eager | preparation, s | predicted ms a step |"
    lines = [head, "|---|---|---|---|---|---|"]
    for row in rows:
        times = row["problem"] or "{ms:.3f} ({shortest:.3f}, {longest:.3f})".format(**row)
        ratio, predicted = (f"{row[key]:.3f}" if row[key] else "-" for key in ("ratio", "predicted"))
        lines.append(
            f"| {row['precision']} | {row['execution']} | {times} | {ratio} | {row['preparation']:.1f} | {predicted} |"
        )
    return lines


class Side:
    """One precision and execution, with a model and a rollout of its own.

    Attributes:
        problem: what went wrong while it was prepared; empty if nothing did.
        note: why the kernel of the loss is not used; empty where it is, or where there is none.
        executor: takes the steps of :attr:`batches` on :attr:`rollout`.
    """

    def __init__(
        self,
        precision: Precision,
        execution: Execution,
        samples: int,
        batch: int,
        device: str,
        spec: PolicySpec = DESK,
    ) -> None:
        self.precision, self.execution, self.samples, self.batch = precision, execution, samples, batch
        self.spec = spec
        self._times: list[float] = []
        self.problem, self.note, begin = "", "", time.perf_counter()
        self._device = torch.device(device)
        try:
            self._prepare()
        except Exception as error:
            self.problem = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
        self.preparation = time.perf_counter() - begin

    def _prepare(self) -> None:
        host = ActorCritic(self.spec)
        initialise(host, "orthogonal", torch.Generator().manual_seed(0))
        model = ActorCritic(self.spec, self._device, on_card=self._device.type == "cuda")
        ModelTransfer(host, model).to_device()
        settings = UpdateSettings(1, self.batch, 3e-4, 3e-4, 0.5, self.batch, self.precision)
        algorithm = Ppo(0.95, PpoCoefficients(0.2, 0.01, 0.5))
        stepper = TorchStepper(model, algorithm, settings)
        self.note = stepper.compile()
        self.executor = Executor(stepper, "eager")
        self.executor.use(self.execution)
        self.rollout = _made_up(self.spec, model.spec, self.samples, self._device)
        count, size = minibatch_shape(self.samples, self.batch)
        room = host_allocator(self._device.type == "cuda")((1, count, size), np.dtype(np.int64))
        self.batches = draw_epochs(room, self.samples, np.random.default_rng(0))[0]  # as in an update
        self.executor.prepare(self.rollout, self.batches)
        self.run_epoch()

    def run_epoch(self) -> None:
        """Take the steps of an epoch and wait for them."""
        self.executor.run(self.rollout, self.batches)
        synchronise(self._device)

    def take_a_turn(self) -> None:
        """Time an epoch."""
        if self.problem:
            return
        synchronise(self._device)
        begin = time.perf_counter()
        self.run_epoch()
        self._times.append(1e3 * (time.perf_counter() - begin) / self.batches.steps)

    def row(self, gpu: Gpu | None, eager: "Side") -> dict:
        """Return what was measured, beside the prediction where the card is in the catalogue."""
        times = self._times or [0.0]
        card = card_of(gpu) if gpu else None
        work = step_work(
            self.spec,
            self.precision != "fp32",
            minibatch_shape(self.samples, self.batch)[1],
            self.batch,
            self.execution,
        )
        predicted = seconds(work, card, self.precision, True) if card else {}
        return {
            "precision": self.precision,
            "execution": self.execution,
            "problem": self.problem,
            "ms": median(times),
            "shortest": min(times),
            "longest": max(times),
            "ratio": median(times) / median(eager._times) if self._times and eager._times else None,
            "preparation": self.preparation,
            "predicted": 1e3 * predicted["operations"] if predicted else None,
        }


def _made_up(spec: PolicySpec, filled: PolicySpec, samples: int, device: torch.device) -> Samples:
    """Return random samples, all actions of a policy allowed, in the shapes of the policy with its rows filled up."""
    generator, n = torch.Generator().manual_seed(1), spec.action_space.outputs
    columns = [torch.randn(samples, generator=generator) for _ in range(3)]
    further = filled.action_space.outputs - n
    observations = torch.randn(samples, spec.observation_size, generator=generator)
    features = torch.randn(samples, n, spec.action_features, generator=generator)
    rollout = Samples(
        observations=pad(observations, (0, filled.observation_size - spec.observation_size)),
        actions=torch.randint(0, n, (samples,), generator=generator),
        log_probs=torch.full((samples,), -float(np.log(n))),
        masks=pad(torch.ones(samples, n, dtype=torch.bool), (0, further)),
        features=pad(features, (0, 0, 0, further)),
        advantages=columns[0],
        returns=columns[1],
        values=columns[2],
    )
    return rollout.map(lambda column: column.to(device))
