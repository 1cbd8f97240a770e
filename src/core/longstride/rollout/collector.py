"""What all collectors share: their plan, their results, the protocol that the trainer uses, and helpers."""

import time
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np
from numba.core.errors import NumbaError

from longstride.errors import PLAYING, UserError
from longstride.jit_cache.cache import compile_for
from longstride.jit_cache.sized_records import is_sized
from longstride.policies.compiled.forward import align_params
from longstride.policies.spec import PolicySpec
from longstride.rollout.exploring.exploration import NO_EXPLORING, Exploring
from longstride.rollout.fault_locator import ReplayedInstance, StepSnapshot, load_record
from longstride.rollout.outcomes.drawn import Drawn
from longstride.rollout.trajectory import Trajectory
from longstride.simulators.compile_errors import describe_compile_error
from longstride.simulators.simulator import Simulator

S = TypeVar("S")
T = TypeVar("T")

BuildLoop = Callable[[Simulator, PolicySpec], Any]
"""Builds a compiled loop that fills trajectories: ``build_collect_steps`` of ``collect_steps.py``, or one with the same
arguments."""

_PLAYING_ON = 16
"""Of so many instances one never gives up an episode."""


class RolloutPlan(NamedTuple):
    """How much an iteration collects, and on what."""

    seed: int  # seed of the run's random streams
    instances: int  # number of environment instances that this process plays
    steps: int = 0  # environment steps of each instance; 0 for one whole episode each
    threads: int = 1  # most threads to use
    side_by_side: int = 1  # most whole episodes that a thread plays at once, which is faster than one after another
    group_size: int = 1  # instances, one after the other, that share start and simulator's random streams
    restart_after: int = 0  # steps after which an instance gives up its episode between two rollouts; 0 for never
    explorers: int = 0  # one of so many instances makes excursions from archived states; 0 for none
    draws: int = 0  # further outcomes of each step
    first: int = 0  # number of its first instance among those of all processes
    of: int = 0  # number of instances of all processes; 0 where this one plays all

    @property
    def everywhere(self) -> int:
        """Number of instances of all processes."""
        return self.of or self.instances


class EpisodeOutcome(NamedTuple):
    """How an episode ended."""

    total_reward: float  # undiscounted sum of rewards
    metrics: dict[str, Any]  # the simulator's metrics as JSON values
    message: str | None  # sentence about the end that a user should read, or None


class InstanceTrajectory(NamedTuple):
    """What one environment instance collected in an iteration."""

    trajectory: Trajectory  # environment steps, views that the next collection overwrites
    finished: list[EpisodeOutcome]  # outcomes of the episodes that ended in it
    is_natural: bool = True  # whether they began as the simulator begins them
    drawn: Drawn | None = None  # further outcomes of its steps, views likewise; None for none


class CollectorState(NamedTuple):
    """Unfinished episodes of all instances, as a checkpoint keeps them."""

    records: Mapping[str, np.ndarray]  # name -> uint8[*], bytes of states
    metadata: list[dict[str, Any]]  # JSON values of each instance


class Collector(Protocol):
    """Collects the trajectories of an iteration.

    It is made from these attributes, and perhaps an allocator of the trajectory arrays. A collector extends this class
    for what it has not itself: figures, sentences and players.
    """

    simulator: Simulator  # simulator whose episodes are collected
    spec: PolicySpec  # architecture of the policy
    plan: RolloutPlan  # size of a rollout and its random streams
    exploring: Exploring = NO_EXPLORING  # its exploring starts
    is_compiled: bool = True  # whether compiled code computes the policy's outputs, and reads its parameters each time
    part: Any = None  # what the last rollout adds to exploring starts, for :meth:`restart_old_episodes`

    def collect(
        self, actor_params: np.ndarray, first_episode: int, count: int
    ) -> tuple[Sequence[InstanceTrajectory], float]:
        """Collect with some instances.

        Args:
            actor_params: float32[*], parameters of the actor in the flat layout.
            first_episode: number of the first whole episode; names its random streams. Not used where each instance
                counts its own episodes.
            count: number of instances, at most those of the plan.

        Returns:
            A trajectory of each instance, and the seconds that collection took.

        Raises:
            SimulatorError: the simulator broke its contract; episode and step are named.
        """

    @property
    def terminated(self) -> bool:
        """Whether any episode so far was terminated, and not cut; False where episodes are played whole."""

    def restart_old_episodes(self, terminated: bool, parts: Sequence[Any] = ()) -> None:
        """Let instances give up old episodes, unless an episode of any process was terminated.

        Parts are what the rollout of all processes adds to exploring starts.

        A collector whose plan has all instances does so itself, after each collection.
        """

    @property
    def reach(self) -> float:
        """Share of their whole length after which episodes are given up now."""
        return self.exploring.reach

    def resize(self, steps: int) -> None:
        """Collect so many steps from each instance from now on, at most those of the plan; episodes stay whole."""

    def prepare(self, steps: int, outcomes: bool) -> None:
        """Resize for the next rollout; say whether further outcomes of its steps count, if the plan has any."""
        self.resize(steps)

    def compile(self, actor_params: np.ndarray) -> float:
        """Compile without a step; return the seconds it took.

        Raises:
            UserError: Numba cannot compile the simulator.
        """

    def state_dict(self) -> CollectorState:
        """Return what is needed to continue the unfinished episodes."""

    def load_state_dict(self, state: CollectorState) -> None:
        """Continue the episodes that :meth:`state_dict` returned; instances without a state begin with their first one.

        Raises:
            UserError: a record does not fit the simulator.
        """

    def replayed(self, before: CollectorState, first_episode: int, count: int) -> list[ReplayedInstance]:
        """Return the instances of a collection as they were before it; none if no step can be repeated."""

    @property
    def playing_threads(self) -> int:
        """Threads that play rollouts, those of all hosts together."""
        return self.plan.threads

    def figures(self) -> dict[str, Any]:
        """Return what metrics.jsonl says of who played the last rollout."""
        return {}

    def take_lines(self) -> list[str]:
        """Return the sentences for the user since the last call."""
        return []

    def close(self) -> None:
        """End what is played, and let players go."""
        return


def params_to_play(collector: Collector, actor_params: np.ndarray) -> np.ndarray:
    """Return float32[*] parameters of the actor where a collector reads them fastest.

    Compiled code reads a copy that is aligned. A forward pass in batches copies them itself, a GPU from pinned memory.
    """
    return align_params(actor_params, collector.spec) if collector.is_compiled else actor_params


def compile_loop(simulator: Simulator, loop: Any, arguments: Sequence[Any]) -> float:
    """Compile a simulator's loop without a step; return the seconds it took, as :meth:`Collector.compile` does."""
    begin = time.perf_counter()
    try:
        compile_for(loop, arguments)
    except NumbaError as error:
        raise describe_compile_error(simulator, error) from error
    return time.perf_counter() - begin


def in_threads(threads: int, function: Callable[[S], T], items: Iterable[S]) -> list[T]:
    """Return the results of a function for each item, in order."""
    if threads == 1:
        return list(map(function, items))
    with ThreadPoolExecutor(threads, PLAYING) as pool:
        return list(pool.map(function, items))


def restarts(plan: RolloutPlan, index: int, number: int, age: int, oldest: int, runs_away: bool = False) -> bool:
    """Return whether an instance begins another episode between two rollouts, as this one is too old.

    The index is that among the instances of all processes, ``oldest`` the age of a whole episode now.
    The first ones end one by one. A few instances play on, so that what comes late in an episode is seen, too, unless
    episodes are still shorter than those of the plan, or what they play ``runs_away``.
    """
    last = oldest if number > 0 else oldest * (index + 1) // plan.everywhere
    plays_on = index % _PLAYING_ON == 0 and oldest == plan.restart_after and not runs_away
    return not plays_on and 0 < last <= age


def record_name(index: int) -> str:
    """Return the name of an instance's record in a checkpoint."""
    return f"rollout.{index}.state"


def order_of(dtype: np.dtype[Any]) -> dict[str, int]:
    """Return metadata that tell states apart whose bytes have another order: a digest of the fields, if sizes vary."""
    return {"fields": zlib.crc32(" ".join(dtype.names or ()).encode())} if is_sized(dtype) else {}


def load_instance(
    record: np.ndarray | None, metadata: dict[str, Any], states: np.ndarray, policy_states: np.ndarray
) -> None:
    """Set the states of an instance, the simulator's record[1] and the policy's float32[1, *], to those of a record.

    Raises:
        UserError: it has not so many bytes, or other fields.
    """
    size = states.nbytes + policy_states.nbytes
    other = any(metadata.get(name) != digest for name, digest in order_of(states.dtype).items())
    if record is None or record.size != size or other:
        found = "has other fields" if other else "is missing"
        if record is not None and record.size != size:
            found = f"has {record.size} bytes, not {size}"
        raise UserError(
            f"The state of an unfinished episode in the checkpoint {found}; resume with the simulator that the "
            "run began with, and its version of Longstride."
        )
    load_record(record.tobytes(), states, policy_states)


def snapshot_of(record: np.ndarray, metadata: dict[str, Any]) -> StepSnapshot:
    """Return the next step of an instance with a record and metadata, as a checkpoint keeps them."""
    number, age = (metadata["number"] + 1, -1) if metadata["over"] else (metadata["number"], metadata["age"])
    return StepSnapshot(number, age, record.tobytes(), metadata["rng"], metadata["policy_rng"])
