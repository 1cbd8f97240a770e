"""The actor in torch for half-batches of a fixed number of rows: what a batched collector asks.

A step takes observations, beginnings of episodes and states of all rows, and returns outputs and new states. On a GPU
the step of a half is captured once, with the copies of its inputs and outputs, and runs on a stream of its own: two
small forward passes can overlap. Draws are made by the collector, from the outputs.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from longstride.errors import first_line
from longstride.policies.card_spec import ALIGNMENT
from longstride.policies.families.torch_families import TORCH_FAMILIES
from longstride.policies.memory import Memory
from longstride.policies.networks import ActorCritic
from longstride.policies.spec import PolicySpec

_LARGE_ROW = 1 << 16
"""Bytes from which the state of a row is worth a copy of its own: 64 KiB take about as long as the launch of a copy."""

Step = Callable[[Tensor, Tensor, Tensor], Tensor]
"""``(observations, begins, states) -> outputs`` of B rows: float32[B, O], bool[B, 1], float32[B, state_size], which are
replaced; float32[B, outputs] without action features."""


class Graphs(Protocol):
    """Captures launches."""

    def capture(self, function: Callable[[], None]) -> Callable[[], None]:
        """Run a function some times, capture its launches, and return a function that repeats them."""


def build_step(spec: PolicySpec, actor: Tensor) -> Step:
    """Return the step of a policy that scores no actions, its parameters float32[*] on any device."""
    model = ActorCritic(spec, "meta")  # its structure; the tensors are those of `actor`
    names = (name for name, offset in model.layout.offsets.items() if offset < model.layout.actor_size)
    tensors = {name: model.layout.view(actor, name) for name in names}

    def plain(observations: Tensor, begins: Tensor, states: Tensor) -> Tensor:
        return model.logits(model.normalise(observations, tensors), None, tensors)

    def remembering(observations: Tensor, begins: Tensor, states: Tensor) -> Tensor:
        return model.step(model.normalise(observations, tensors), tensors, Memory(states, begins))

    return remembering if spec.has_memory else plain


class TorchForward:
    """Answers half-batches on a device: a ``BatchedForward`` of :mod:`longstride.rollout.batched.forward`.

    The policy's states stay on the device. With ``bf16_states`` a family that steps in place keeps them in BF16 there;
    they come and go in float32. With ``new_graphs`` the step of each half is captured; what cannot be captured is
    launched operation by operation, and ``note`` says so. Each half has graphs of its own: the libraries of a captured
    step use memory that belongs to the stream on which it was captured.
    """

    def __init__(
        self,
        spec: PolicySpec,
        halves: int,
        rows: int,
        device: torch.device,
        new_graphs: Callable[[], Graphs] | None = None,
        bf16_states: bool = False,
    ) -> None:
        self._on_gpu, self._new_graphs, self.note = device.type == "cuda", new_graphs, ""
        self._actor = torch.zeros(spec.layout.actor_size, device=device)
        self._step = build_step(spec, self._actor)
        shapes = (spec.observation_size, torch.float32), (1, torch.bool), (spec.action_space.outputs, torch.float32)
        self._host = [
            torch.zeros(halves, rows, columns, dtype=dtype, pin_memory=self._on_gpu) for columns, dtype in shapes
        ]
        self._inputs = [each.to(device) for each in self._host[:2]]  # on the CPU the same memory
        self._in_place = TORCH_FAMILIES[spec.family.name].in_place
        width = filled = spec.state_size
        self._format = torch.bfloat16 if bf16_states and self._in_place else torch.float32
        if self._in_place:
            width = self._in_place.width(spec, self._format)
            # Kernels of attention, which read these states in place, fail unless rows begin at multiples of 16 bytes.
            filled = -(-width // ALIGNMENT) * ALIGNMENT
        self._states = torch.zeros(halves, rows, filled, dtype=self._format, device=device)[..., :width]
        self.observations, self.begins, self.outputs = (each.numpy() for each in self._host)
        self._spec, self._has_memory = spec, spec.has_memory
        on_gpu = range(halves if self._on_gpu else 0)
        self._streams: list[Any] = [_new_stream(device) for _ in on_gpu]
        self._ready: list[Any] = [_new_event() for _ in on_gpu]
        self._behind = set(on_gpu)  # halves whose streams must wait for parameters or states on the present one
        self._read: Tensor | None = None
        self._launches: list[Callable[[], None]] = []

    def prepare(self) -> float:
        """Capture the step of each half; return the seconds it took."""
        begin = time.perf_counter()
        if not self._launches:
            states = self._states.clone()
            self._launches = [self._prepared(half) for half in range(len(self._states))]
            self._states.copy_(states)  # which the runs before a capture change
            self._changed()
        return time.perf_counter() - begin

    def _prepared(self, half: int) -> Callable[[], None]:
        """Return what answers a half."""

        def answer() -> None:
            self._answer(half)

        if self._new_graphs is None:
            return answer
        try:
            with torch.no_grad():
                return self._new_graphs().capture(answer)
        except RuntimeError as error:
            self.note = f"The policy's forward pass is not captured, as that failed: {first_line(error)}."
            return answer

    def _answer(self, half: int) -> None:
        """Launch all that answers a half; nothing here waits for a GPU."""
        observations, begins = (each[half] for each in self._inputs)
        if self._on_gpu:
            observations.copy_(self._host[0][half], non_blocking=True)
            if self._has_memory:
                begins.copy_(self._host[1][half], non_blocking=True)
        outputs = self._step(observations, begins, self._states[half])
        self._host[2][half].copy_(outputs, non_blocking=True)

    def load(self, actor_params: np.ndarray) -> None:
        """Copy the parameters of the actor, float32[*] in the flat layout; fastest from pinned memory."""
        self._actor.copy_(torch.from_numpy(actor_params))
        self._changed()

    def launch(self, half: int) -> None:
        """Begin to answer the observations of a half."""
        if not self._launches:
            self.prepare()
        with torch.no_grad(), self._on_stream(half):
            self._launches[half]()
            if self._on_gpu:
                self._ready[half].record()

    def _changed(self) -> None:
        """Let the next forward passes wait for work on the present stream that changes or reads what they do."""
        self._behind = set(range(len(self._streams)))

    @contextmanager
    def _on_stream(self, half: int) -> Iterator[None]:
        """Launch on the stream of a half."""
        if not self._on_gpu:
            yield
            return
        if half in self._behind:
            self._behind.remove(half)
            self._streams[half].wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self._streams[half]):
            yield

    def wait(self, half: int) -> None:
        """Wait until the outputs of a half are there; on the CPU they are."""
        if self._on_gpu:
            self._ready[half].synchronize()

    def read_states(self, half: int, into: np.ndarray) -> None:
        """Write the policy's states of the first rows of a half into float32[n, state_size]."""
        states = self._unpacked(self._states[half, : len(into)])
        if not self._on_gpu:
            torch.from_numpy(into).copy_(states)
            return
        # The rows are apart from one another, and torch would put them together in memory that is not pinned.
        if states[0].nbytes >= _LARGE_ROW:
            for row, state in zip(into, states, strict=True):
                torch.from_numpy(row).copy_(state, non_blocking=True)
            torch.cuda.synchronize(states.device)
            return
        if self._read is None:
            self._read = torch.empty(self._host[0].shape[1], self._spec.state_size, pin_memory=True)
        into[...] = self._read[: len(into)].copy_(states).numpy()

    def copy_states(self) -> Callable[[int], np.ndarray]:
        """Copy all states on the device; return what gives those of a half, float32[rows, state_size]."""
        copied = self._states.clone()
        self._changed()

        def states(half: int) -> np.ndarray:
            of_the_half: np.ndarray = self._unpacked(copied[half]).cpu().numpy()
            return of_the_half

        return states

    def _unpacked(self, states: Tensor) -> Tensor:
        """Return states of a half as every other function takes them."""
        return self._in_place.unpack(self._spec, states) if self._in_place else states

    def set_states(self, half: int, states: np.ndarray) -> None:
        """Set the states of the first rows of a half, float32[n, state_size]."""
        given = torch.from_numpy(states)
        packed = self._in_place.pack(self._spec, given, self._format) if self._in_place else given
        self._states[half, : len(states)].copy_(packed)
        self._changed()


def _new_stream(device: torch.device) -> Any:
    return torch.cuda.Stream(device)  # type: ignore[no-untyped-call]


def _new_event() -> Any:
    return torch.cuda.Event()  # type: ignore[no-untyped-call]
