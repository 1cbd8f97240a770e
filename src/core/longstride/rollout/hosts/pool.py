"""What hands tasks to players: the protocol, and a pool in this process, which plays on threads of its own."""

from collections.abc import Hashable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np

from longstride.policies.spec import PolicySpec
from longstride.rollout.collector import RolloutPlan
from longstride.rollout.hosts.player import Answer, Player
from longstride.rollout.hosts.wire import Task
from longstride.simulators.simulator import Simulator

Receipt = Any
"""Stands for an answer that is not there yet; hashable."""


class LostError(Exception):
    """The host that was to answer is lost, or its answer is."""


class Host(NamedTuple):
    """A player on a host."""

    key: Hashable  # different for each player
    name: str  # for messages
    threads: int  # tasks that it plays at once


@dataclass(frozen=True)
class Job:
    """What players are to play: a simulator, a policy and a plan."""

    simulator: Simulator
    source: dict[str, Any]  # JSON values from which the simulator is built again
    spec: PolicySpec
    plan: RolloutPlan


class Pool(Protocol):
    """Players on some hosts."""

    def start(self, job: Job, actor_params: np.ndarray) -> list[str]:
        """Prepare the players for a job; return sentences for the user.

        Raises:
            UserError: there is no host, or one cannot play it.
        """

    def hosts(self) -> list[Host]:
        """Return the players that are there, with those of hosts that joined."""

    def take_lines(self) -> list[str]:
        """Return sentences for the user since the last call, about hosts that have joined."""

    def put(self, actor_params: np.ndarray) -> Any:
        """Hand over the parameters of an iteration once; return what stands for them."""

    def submit(self, host: Host, task: Task, parameters: Any) -> Receipt:
        """Let a host play a task."""

    def wait(self, receipts: Sequence[Receipt], seconds: float) -> list[Receipt]:
        """Return receipts whose answer is there, after so many seconds at most."""

    def fetch(self, receipt: Receipt) -> Answer:
        """Return an answer.

        Raises:
            LostError: the host was lost.
        """

    def give_up(self, host: Host) -> None:
        """Forget a host that was lost."""

    def close(self) -> None:
        """Let the players go."""


class LocalPool:
    """Players on threads of this process."""

    def __init__(self, threads: int) -> None:
        self._host, self._player, self._version = Host("here", "this process", threads), Player(), 0
        self._executor = ThreadPoolExecutor(threads, thread_name_prefix="player")

    def start(self, job: Job, actor_params: np.ndarray) -> list[str]:
        """Compile the loop."""
        self._player.begin(job.simulator, job.spec, job.plan, self._host.threads)
        self._player.compile(actor_params)
        return []

    def hosts(self) -> list[Host]:
        """Return the one player."""
        return [self._host]

    def take_lines(self) -> list[str]:
        """Return nothing: no host joins."""
        return []

    def put(self, actor_params: np.ndarray) -> tuple[int, np.ndarray]:
        """Keep a copy of the parameters, which the next update changes."""
        self._version += 1
        return self._version, actor_params.copy()

    def submit(self, host: Host, task: Task, parameters: tuple[int, np.ndarray]) -> "Future[Answer]":
        """Let a thread play a task."""
        return self._executor.submit(self._player.play, task, *parameters)

    def wait(self, receipts: Sequence["Future[Answer]"], seconds: float) -> list["Future[Answer]"]:
        """Return futures that are done."""
        return list(wait(receipts, seconds, FIRST_COMPLETED).done)

    def fetch(self, receipt: "Future[Answer]") -> Answer:
        """Return an answer."""
        return receipt.result()

    def give_up(self, host: Host) -> None:
        """Do nothing: this process is not lost."""

    def close(self) -> None:
        """End the threads; a task that is played is played to its end."""
        self._executor.shutdown(wait=False, cancel_futures=True)
