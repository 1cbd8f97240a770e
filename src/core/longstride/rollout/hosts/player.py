"""What plays on a host: it builds the simulator by its source, compiles the loop there, and plays tasks in threads."""

import json
import os
import threading
import time
from contextlib import suppress
from queue import SimpleQueue
from typing import Any, NamedTuple

import numpy as np

from longstride.errors import PolicyNotFiniteError, SimulatorError, UserError
from longstride.policies.compiled.forward import align_params
from longstride.policies.spec import PolicySpec
from longstride.policies.spec_json import spec_from_json, spec_to_json
from longstride.rollout.collector import RolloutPlan
from longstride.rollout.hosts.host_compatibility import Code, code_here, file_digest, simulator_digest
from longstride.rollout.hosts.task_runner import TaskRunner, host_runner
from longstride.rollout.hosts.wire import Played, Task
from longstride.simulators.hooks import close_all
from longstride.simulators.loading import from_source
from longstride.simulators.simulator import Simulator

_KEPT = 2
"""Versions of the parameters that a host keeps: those of two iterations may be played at once."""


class Fault(NamedTuple):
    """Why a task failed; the same on every host."""

    kind: str  # name of the error's class
    sentence: str
    instance: int  # first instance of the task


class Answer(NamedTuple):
    """What a host returns of a task."""

    played: list[Played]  # one of each instance; none where it failed
    fault: Fault | None
    seconds: float  # processor time that a thread of the host took


class Order(NamedTuple):
    """What a host needs before it plays; JSON values, so that other versions of this code can read it."""

    source: dict[str, Any]  # of the simulator
    file_digest: str  # of the file in the source; empty without one
    simulator_digest: str
    spec: dict[str, Any]
    plan: list[Any]  # fields of the RolloutPlan
    places: int  # tasks that are played at once
    folder: str  # working folder of the run; a host that has one of this name works in it


class Player:
    """Plays tasks; its methods are called by Ray, or in this process."""

    def __init__(self) -> None:
        self._runner: TaskRunner | None = None
        self._spec: PolicySpec | None = None
        self._free: SimpleQueue[int] = SimpleQueue()
        self._parameters: dict[int, np.ndarray] = {}
        self._lock = threading.Lock()

    def process(self) -> int:
        """Return the id of the process that plays."""
        return os.getpid()

    def code(self) -> Code:
        """Return versions of what runs here."""
        return code_here()

    def prepare(self, order: str, actor_params: np.ndarray) -> str:
        """Build the simulator of an :class:`Order` and compile the loop; return what is wrong, empty if nothing is."""
        try:
            self._prepare(Order(**json.loads(order)), actor_params)
        except UserError as error:
            return str(error)
        return ""

    def _prepare(self, order: Order, actor_params: np.ndarray) -> None:
        with suppress(OSError):
            os.chdir(order.folder)
        if file_digest(order.source) != order.file_digest:
            raise UserError("its simulator file differs; put the same file at the same path on every host")
        simulator = from_source(order.source).simulator
        if simulator_digest(simulator) != order.simulator_digest:
            raise UserError(
                "its simulator is another one, by its file or its parameters; install the same on all hosts"
            )
        self.begin(simulator, spec_from_json(order.spec), RolloutPlan(*order.plan), order.places)
        self.compile(actor_params)

    def compile(self, actor_params: np.ndarray) -> None:
        """Compile the loop without a step."""
        assert self._runner is not None and self._spec is not None
        self._runner.collector.compile(align_params(actor_params, self._spec))

    def begin(self, simulator: Simulator, spec: PolicySpec, plan: RolloutPlan, places: int) -> None:
        """Make the memory for some tasks at once."""
        self._spec, self._runner = spec, host_runner(simulator, spec, plan, places)
        for place in range(places):
            self._free.put(place)

    def play(self, task: Task, version: int, actor_params: np.ndarray) -> Answer:
        """Play a task with some version of the parameters, float32[*]; wait for a place where none is free."""
        assert self._runner is not None
        place, begin = self._free.get(), time.thread_time()
        try:
            played = self._runner.play(place, task, self._aligned(version, actor_params))
            return Answer(played, None, time.thread_time() - begin)
        except SimulatorError as error:
            kind = PolicyNotFiniteError if isinstance(error, PolicyNotFiniteError) else SimulatorError
            return Answer([], Fault(kind.__name__, str(error), task.first), time.thread_time() - begin)
        except UserError as error:
            return Answer([], Fault(UserError.__name__, str(error), task.first), time.thread_time() - begin)
        finally:
            self._free.put(place)

    def close(self) -> None:
        """Close what the episodes have opened, once the task that is played has ended."""
        if self._runner is not None:
            self._free.get()
            close_all(self._runner.collector.simulator)

    def _aligned(self, version: int, actor_params: np.ndarray) -> np.ndarray:
        """Return a version of the parameters in memory of this process, which compiled code reads fastest."""
        assert self._spec is not None
        with self._lock:
            aligned = self._parameters.get(version)
            if aligned is None:
                aligned = self._parameters[version] = align_params(actor_params, self._spec)
                for old in sorted(self._parameters)[:-_KEPT]:
                    del self._parameters[old]
            return aligned


def order_of(simulator: Simulator, source: dict[str, Any], spec: PolicySpec, plan: RolloutPlan, places: int) -> str:
    """Return the JSON text of an :class:`Order`; the source is that of ``portable_source``."""
    fields = list(plan._replace(threads=1))
    digests = file_digest(source), simulator_digest(simulator)
    return json.dumps(Order(source, *digests, spec_to_json(spec), fields, places, os.getcwd())._asdict())


_ERRORS = {kind.__name__: kind for kind in (PolicyNotFiniteError, SimulatorError, UserError)}


def error_of(fault: Fault) -> UserError:
    """Return the error that a host met."""
    return _ERRORS[fault.kind](fault.sentence)
