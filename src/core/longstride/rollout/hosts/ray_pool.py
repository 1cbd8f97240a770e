"""Players as Ray actors: one on each host, with a thread for each core."""

import contextlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from longstride.errors import UserError, one_line
from longstride.rollout.hosts.host_compatibility import code_here, portable_source, require_same_code
from longstride.rollout.hosts.player import Answer, Player, order_of
from longstride.rollout.hosts.pool import Host, Job, LostError
from longstride.rollout.hosts.ray_cluster import Cluster, Place, check_address
from longstride.rollout.hosts.wire import Task

_START = 180.0
"""Seconds that a host may take to start a player, which compiles the loop."""

_CLOSE = 10.0
"""Seconds that hosts may take to close their environments, the task that is played included."""

PATIENCE = 30.0
"""Seconds without an answer to a question after which a player counts as lost: its process may be stopped."""


@dataclass
class _Actor:
    """A player on a host."""

    host: Host
    handle: Any  # Ray's handle of the actor
    ready: Any = None  # receipt of its preparation; None once it is prepared
    sign: Any = None  # receipt of a question that it answers at once if it lives; None before the first
    asked: float = 0.0  # seconds of the clock when it was asked
    silent: bool = False  # whether it has not answered for too long
    holds: set[Any] = field(default_factory=set)  # receipts of its tasks


class RayPool:
    """Players on the hosts of a Ray cluster; hosts that join later get one, too.

    Args:
        address: ``auto``, ``HOST:PORT`` or ``local:N``.
        threads: cores of this machine that players may use, where they are here.
        patience: seconds without an answer after which a player counts as lost.

    Raises:
        UserError: the address is not written like one.
    """

    def __init__(self, address: str, threads: int, patience: float = PATIENCE) -> None:
        check_address(address)
        self._patience = patience
        self._address, self._threads = address, threads
        self._cluster: Cluster | None = None
        self._actors: dict[Place, _Actor] = {}
        self._refused = set[Place]()  # hosts that joined later and cannot play
        self._lines: list[str] = []  # sentences for the user about hosts that joined later
        self._version, self._one_each = 0, False
        self._actor_params = np.zeros(0, np.float32)
        self._prepare: Callable[[Place], str] | None = None

    @property
    def _ray(self) -> Any:
        assert self._cluster is not None
        return self._cluster.ray

    def start(self, job: Job, actor_params: np.ndarray) -> list[str]:
        """Connect, start a player on each host, compare their code with this, and compile the loop there."""
        source = portable_source(job.source)
        self._cluster = self._cluster or Cluster(self._address)
        self._actor_params = actor_params.copy()
        self._prepare = lambda place: order_of(job.simulator, source, job.spec, job.plan, place.cores)
        self._one_each = not job.simulator.compiled  # one interpreter steps one environment at a time
        places = self._cluster.places(self._threads, self._one_each)
        if not places:
            raise UserError(f"No host of the Ray cluster {self._address} has a core; start some with `ray start`.")
        for place in places:
            self._begin(place)
        notes = [self._checked(actor) for actor in self._actors.values()]
        for actor in self._actors.values():
            if problem := self._get(actor, actor.ready):
                raise UserError(f"Host {actor.host.name} cannot play: {problem.rstrip('.')}.")
            actor.ready = None
        cores = sum(place.cores for place in places)
        return [f"Hosts: {len(places)} players with {cores} threads play.", *filter(None, [self._cluster.note, *notes])]

    def _begin(self, place: Place) -> _Actor:
        """Start a player and its preparation."""
        assert self._prepare is not None
        how: dict[str, Any] = {"num_cpus": 0, "max_concurrency": place.cores + 1}
        if place.node:
            from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

            how["scheduling_strategy"] = NodeAffinitySchedulingStrategy(place.node, soft=False)
        handle = self._ray.remote(Player).options(**how).remote()
        actor = _Actor(Host(handle._actor_id.hex(), place.name, place.cores), handle)
        actor.ready = handle.prepare.remote(self._prepare(place), self._actor_params)
        self._actors[place] = actor
        return actor

    def _checked(self, actor: _Actor) -> str:
        """Compare a host's code with this; return a sentence about its processor, if it is of another kind."""
        return require_same_code(actor.host.name, self._get(actor, actor.handle.code.remote()), code_here())

    def _get(self, actor: _Actor, receipt: Any) -> Any:
        """Return what a host answers while it starts.

        Raises:
            UserError: it does not.
        """
        errors = self._ray.exceptions
        name = actor.host.name
        try:
            return self._ray.get(receipt, timeout=_START)
        except errors.GetTimeoutError:
            raise UserError(
                f"Host {name} did not start a player within {_START:g} s; look at it with `ray status`."
            ) from None
        except errors.RayError as error:
            raise UserError(
                f"Host {name} cannot start a player ({one_line(error)}); look at it with `ray status`, and install the "
                "same version of Longstride there."
            ) from None

    def hosts(self) -> list[Host]:
        """Return the players that are prepared, and start one on each host without one."""
        assert self._cluster is not None
        for place in self._cluster.places(self._threads, self._one_each):
            if place not in self._actors and place not in self._refused:
                with contextlib.suppress(self._ray.exceptions.RayError):  # the host is gone again
                    self._begin(place)
        for place, actor in list(self._actors.items()):
            if actor.ready is not None and self._ray.wait([actor.ready], timeout=0)[0]:
                self._join(place, actor)
        for actor in self._actors.values():
            self._look_at(actor)
        return [actor.host for actor in self._actors.values() if actor.ready is None]

    def _look_at(self, actor: _Actor) -> None:
        """Ask a player for a sign of life, and note if it has given none for too long."""
        now = time.monotonic()
        if actor.ready is not None:
            return
        if actor.sign is None or self._ray.wait([actor.sign], timeout=0)[0]:
            actor.sign, actor.asked = actor.handle.process.remote(), now
        elif now - actor.asked > self._patience:
            actor.silent = True

    def _join(self, place: Place, actor: _Actor) -> None:
        """Let a host that came later play if it can."""
        try:
            problem = self._get(actor, actor.ready)
            note = "" if problem else self._checked(actor)
        except UserError as error:
            problem = str(error)
        if problem:
            self._refused.add(place)
            del self._actors[place]
            note = f"Host {actor.host.name} has joined and cannot play: {problem.rstrip('.')}."
        actor.ready = None
        self._lines += filter(None, [note])

    def take_lines(self) -> list[str]:
        """Return sentences about hosts that have joined since the last call."""
        lines, self._lines = self._lines, []
        return lines

    def put(self, actor_params: np.ndarray) -> tuple[int, Any]:
        """Put the parameters into the object store, from which each host takes them once."""
        self._version += 1
        return self._version, self._ray.put(np.asarray(actor_params))

    def submit(self, host: Host, task: Task, parameters: tuple[int, Any]) -> Any:
        """Let a host play a task."""
        [actor] = [actor for actor in self._actors.values() if actor.host.key == host.key]
        receipt = actor.handle.play.remote(task, *parameters)
        actor.holds.add(receipt)
        return receipt

    def wait(self, receipts: Sequence[Any], seconds: float) -> list[Any]:
        """Return receipts whose answer is here, or will not come."""
        lost = set[Any]().union(*(actor.holds for actor in self._actors.values() if actor.silent))
        if dead := [receipt for receipt in receipts if receipt in lost]:
            return dead[:1]
        ready, _ = self._ray.wait(list(receipts), num_returns=1, timeout=seconds)
        return list(ready)

    def fetch(self, receipt: Any) -> Answer:
        """Return an answer, whose arrays lie in the object store as long as they are used."""
        errors = self._ray.exceptions
        lost = errors.RayActorError, errors.ObjectLostError, errors.WorkerCrashedError, errors.RaySystemError
        for actor in self._actors.values():
            if receipt in actor.holds and actor.silent:
                raise LostError(f"no sign of life for {self._patience:.0f} s")
            actor.holds.discard(receipt)
        try:
            answer: Answer = self._ray.get(receipt)
        except lost as error:
            raise LostError(one_line(error)) from None
        return answer

    def give_up(self, host: Host) -> None:
        """Forget a lost host; it gets a new player once it is back."""
        for place, actor in list(self._actors.items()):
            if actor.host.key == host.key:
                with contextlib.suppress(Exception):
                    self._ray.kill(actor.handle)
                del self._actors[place]

    def handles(self) -> list[Any]:
        """Return Ray's handles of the players, for measurements and tests."""
        return [actor.handle for actor in self._actors.values()]

    def close(self) -> None:
        """End the players, and the cluster where it was started here."""
        if self._cluster is None:
            return
        if self._one_each:
            with contextlib.suppress(Exception):
                self._ray.get([actor.handle.close.remote() for actor in self._actors.values()], timeout=_CLOSE)
        for actor in self._actors.values():
            with contextlib.suppress(Exception):
                self._ray.kill(actor.handle)
        self._actors.clear()
        self._cluster.close()
        self._cluster = None
