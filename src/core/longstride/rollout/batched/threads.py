"""The threads that step the instances of a batched collector: each has a block of them, in every half."""

import threading
import time
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from longstride.rollout.batched.arrays import ENDED, BatchArrays, BlockArrays
from longstride.rollout.batched.play_turns import EPISODES_ENDED
from longstride.rollout.batched.turns import NO_TURN, OVER, all_done, next_turn, open_turn, stop
from longstride.rollout.streams.swapped_generator import SwappedGenerator
from longstride.simulators.compile_errors import naming_the_episode
from longstride.simulators.simulator import Simulator

_SPINS, _NAP = 20_000, 50e-6
"""Looks for the next turn before a thread goes to sleep (about 50 µs), and seconds of a nap of the one that waits."""


class Rollout(NamedTuple):
    """What the threads of a rollout share."""

    simulator: Simulator
    play_turns: Callable[..., int]  # of :mod:`longstride.rollout.batched.play_turns`
    states: np.ndarray  # state_dtype[S]
    actor_params: np.ndarray  # float32[*]
    arrays: BatchArrays
    end_episode: Callable[[int], None]  # called for each instance whose episode ended
    name: Callable[[int], str]  # of an instance's episode, for messages


class BlockPlayer:
    """Makes the turns of a block of instances."""

    def __init__(self, rollout: Rollout, block: BlockArrays, generator: SwappedGenerator) -> None:
        self._rollout, self.block, self._generator = rollout, block, generator

    def play(self, spins: int) -> int:
        """Make all turns that are open, looking so often for another one; return NO_TURN or OVER.

        Raises:
            SimulatorError: a function of the simulator raised.
        """
        rollout, block = self._rollout, self.block
        shared = rollout.simulator.parameters, rollout.actor_params, rollout.arrays, block, spins
        while True:
            with naming_the_episode(rollout.simulator, lambda: rollout.name(int(block.playing[0]))):
                reason = rollout.play_turns(rollout.states, self._generator.generator, *shared)
            if reason != EPISODES_ENDED:
                return reason
            begin, end = block.bounds[block.begins_in[0]]
            for i in np.flatnonzero(rollout.arrays.phases[begin:end] == ENDED) + begin:
                rollout.end_episode(int(i))


class _Helper(threading.Thread):
    """A thread that makes the turns of a block until the rollout is over; it sleeps where a turn is long in coming."""

    def __init__(self, player: BlockPlayer, turns: np.ndarray, done: np.ndarray) -> None:
        super().__init__(name="step instances", daemon=True)
        self.error: BaseException | None = None
        self.asleep, self.wake = False, threading.Event()
        self._player, self._counters = player, (turns, done)

    def run(self) -> None:
        """Make turns."""
        try:
            while self._player.play(_SPINS) != OVER:
                # Both sides hold Python's lock: whoever opens a turn sees a sleeper, or the sleeper sees the turn.
                self.asleep = True
                self.wake.clear()
                if next_turn(*self._counters, int(self._player.block.thread[0]), 0) == NO_TURN:
                    self.wake.wait()
                self.asleep = False
        except BaseException as error:
            self.error = error


class Threads:
    """Makes turns with all threads: the caller's, which has the first block, and helpers for the others."""

    def __init__(self, players: list[BlockPlayer], arrays: BatchArrays) -> None:
        self._first, self._blocks = players[0], [player.block for player in players]
        self._turns, self._done = arrays.turns, arrays.done
        self._turns[:], self._done[:] = 0, 0
        self._helpers = [_Helper(player, arrays.turns, arrays.done) for player in players[1:]]

    def __enter__(self) -> "Threads":
        for helper in self._helpers:
            helper.start()
        return self

    def __exit__(self, *error: object) -> None:
        stop(self._turns)
        self._wake()
        for helper in self._helpers:
            helper.join()

    def make_turn(self, half: int) -> int:
        """Make a turn of all instances of a half; return how many take an action in the next one.

        Raises:
            SimulatorError: a function of the simulator raised.
        """
        open_turn(self._turns, half)
        self._wake()
        self._first.play(0)
        while not all_done(self._turns, self._done, half, _SPINS if self._helpers else 0):
            for helper in self._helpers:
                if helper.error is not None:
                    raise helper.error
            time.sleep(_NAP)
        return sum(int(block.going_on[half]) for block in self._blocks)

    def _wake(self) -> None:
        for helper in self._helpers:
            if helper.asleep:
                helper.wake.set()
