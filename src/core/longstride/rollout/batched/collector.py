"""Collects with many instances at once: the cores step them, and one forward pass of fixed size answers a half of them.

While the forward pass of one half is computed, the cores step the other. The draws of an instance are those of its own
random streams, as in the compiled loop; its outputs differ from that loop's by rounding.
"""

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from longstride.jit_cache.cache import cached
from longstride.jit_cache.direct_calls import DirectCalls
from longstride.policies.compiled.forward import new_policy_states
from longstride.policies.spec import PolicySpec
from longstride.rollout.batched.arrays import BlockArrays, new_batch_arrays, new_block
from longstride.rollout.batched.forward import BatchedForward
from longstride.rollout.batched.instances import Instances
from longstride.rollout.batched.play_turns import build_play_turns
from longstride.rollout.batched.threads import BlockPlayer, Rollout, Threads
from longstride.rollout.batched.turns import HALVES
from longstride.rollout.collector import Collector, CollectorState, InstanceTrajectory, RolloutPlan, compile_loop
from longstride.rollout.fault_locator import ReplayedInstance
from longstride.rollout.streams.swapped_generator import SwappedGenerator, require_known_layout
from longstride.rollout.trajectory import Allocate, Trajectory, allocate, allocate_plain
from longstride.simulators.simulator import Simulator

INSTANCES_OF_A_THREAD = 8
"""Fewest instances of a half that a thread is worth: handing a turn to a thread takes microseconds, too."""


class BatchedCollector(Collector):
    """Collects whole episodes, or a fixed number of steps of each instance, as the plan says.

    The result depends neither on the threads nor on the other instances, because each keeps its row of a batch of fixed
    size. It takes over checkpoints of :class:`longstride.rollout.fixed_length_collector.FixedLengthCollector`.

    Raises:
        UserError: NumPy's generators are not laid out as expected.
    """

    is_compiled = False

    def __init__(
        self,
        simulator: Simulator,
        spec: PolicySpec,
        plan: RolloutPlan,
        forward: BatchedForward,
        new: Allocate = allocate_plain,
    ) -> None:
        require_known_layout()
        self.simulator, self.spec, self.plan, self.forward = simulator, spec, plan, forward
        in_a_half = -(-plan.instances // HALVES)
        self.threads = max(min(plan.threads, in_a_half // INSTANCES_OF_A_THREAD), 1)
        rows = _new_rows(simulator, spec, plan, new)
        self._play_turns = DirectCalls(cached(build_play_turns(simulator, spec)))
        self.arrays = new_batch_arrays(rows, spec, forward, self.threads)
        self.instances = Instances(simulator, spec, plan, rows, self.arrays)
        self._copied_states: Callable[[int], np.ndarray] | None = None  # since the last forward pass

    def collect(
        self, actor_params: np.ndarray, first_episode: int, count: int
    ) -> tuple[list[InstanceTrajectory], float]:
        """Collect with some instances."""
        begin = time.perf_counter()
        self._copied_states = None
        self.instances.begin_rollout(first_episode, count)
        self.forward.load(actor_params)
        self._play(self._players(actor_params))
        collected = self.instances.end_rollout(count)
        return collected, time.perf_counter() - begin

    def take_lines(self) -> list[str]:
        """Return why the forward pass is not captured, once."""
        note, self.forward.note = self.forward.note, ""
        return [note] if note else []

    def _play(self, players: list[BlockPlayer]) -> None:
        """Make turns until no instance goes on."""
        halves, forward, row = range(len(self.forward.outputs)), self.forward, 0
        with Threads(players, self.arrays) as threads:
            live = [half for half in halves if self._answer(half, threads, row)]
            while live:
                row += 1
                still = []
                for half in live:
                    forward.wait(half)
                    if self._answer(half, threads, row):
                        still.append(half)
                live = still

    def _answer(self, half: int, threads: Threads, row: int) -> bool:
        """Let a half step, and begin to answer its observations, rows of one number; return whether any goes on."""
        if threads.make_turn(half) == 0:
            return False
        if self.spec.has_memory and row % self.spec.chunk == 0:
            self._note_states(half, row)
        self.forward.launch(half)
        return True

    def _note_states(self, half: int, row: int) -> None:
        """Write what a policy with memory is trained with later: its states before a chunk of steps."""
        begin, end = self._bounds(half)
        kept = self.arrays.rows.states[begin:end, row // self.spec.chunk]
        self.forward.read_states(half, kept)
        kept[self.arrays.begins[half, : end - begin, 0]] = 0.0

    def _bounds(self, half: int) -> tuple[int, int]:
        """Return the first instance of a half, and the one after its last."""
        in_a_half = int(self.arrays.in_a_half[0])
        return half * in_a_half, min((half + 1) * in_a_half, self.plan.instances)

    def _players(self, actor_params: np.ndarray) -> list[BlockPlayer]:
        """Return a player for each thread."""
        instances, count = self.instances, self.plan.instances
        generators = [SwappedGenerator() for _ in range(self.threads)]
        blocks = [new_block(thread, self.threads, count, each) for thread, each in enumerate(generators)]
        common = self._play_turns, instances.states, actor_params, self.arrays
        rollout = Rollout(self.simulator, *common, instances.end_episode, instances.name)
        return [BlockPlayer(rollout, block, each) for block, each in zip(blocks, generators, strict=True)]

    def _arguments(self, actor_params: np.ndarray, generator: SwappedGenerator, block: BlockArrays) -> tuple[Any, ...]:
        """Return arguments of the turns."""
        states, parameters = self.instances.states, self.simulator.parameters
        return states, generator.generator, parameters, actor_params, self.arrays, block, 0

    @property
    def terminated(self) -> bool:
        """Whether any episode of its instances so far was terminated, and not cut."""
        return bool(self.instances.terminated.any())

    def restart_old_episodes(self, terminated: bool, parts: Sequence[Any] = ()) -> None:
        """Let instances give up old episodes; where one was terminated, the ends of episodes have a meaning."""
        if not terminated:
            self.instances.restart_old_episodes()

    def resize(self, steps: int) -> None:
        """Collect so many steps from each instance from now on, at most those of the plan; episodes stay whole."""
        if self.plan.steps:
            self.arrays.steps[0] = steps

    def compile(self, actor_params: np.ndarray) -> float:
        """Compile the turns without a step, and prepare the forward pass; return the seconds it took."""
        generator = SwappedGenerator()
        block = new_block(0, self.threads, self.plan.instances, generator)
        seconds = compile_loop(self.simulator, self._play_turns.kernel, self._arguments(actor_params, generator, block))
        self.forward.load(actor_params)
        return seconds + self.forward.prepare()

    def state_dict(self) -> CollectorState:
        """Return the state of every instance; nothing where every episode is played to its end."""
        if not self.plan.steps:
            return CollectorState({}, [])
        copied = self._copied_states = self._copied_states or self.forward.copy_states()
        halves = range(len(self.forward.outputs))

        def policy_states() -> np.ndarray:
            sizes = [end - begin for begin, end in map(self._bounds, halves)]
            return np.concatenate([copied(half)[:size] for half, size in zip(halves, sizes, strict=True)])

        return self.instances.state_dict(policy_states)

    def load_state_dict(self, state: CollectorState) -> None:
        """Continue episodes; instances without a state begin with their first one."""
        policy_states = new_policy_states(self.spec, self.plan.instances)
        self.instances.load_state_dict(state, policy_states)
        self._copied_states = None
        for half in range(len(self.forward.outputs)):
            self.forward.set_states(half, policy_states[slice(*self._bounds(half))])

    def replayed(self, before: CollectorState, first_episode: int, count: int) -> list[ReplayedInstance]:
        """Return the instances of a collection as they were before it, for the compiled loop to repeat."""
        return self.instances.replayed(before, first_episode, count)


def _new_rows(simulator: Simulator, spec: PolicySpec, plan: RolloutPlan, new: Allocate) -> Trajectory:
    """Return the trajectories of all instances, arrays [S, T, ...]."""
    return allocate(
        spec,
        plan.steps or simulator.max_steps,
        new=lambda shape, dtype: new((plan.instances, *shape), dtype),
        cuts=plan.steps,
        host_only=lambda shape, dtype: np.empty((plan.instances, *shape), dtype),
    )
