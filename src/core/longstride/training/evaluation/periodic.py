"""Evaluations while a run trains: when, of how many episodes, and on which random streams."""

import time
from collections.abc import Callable, Iterable
from copy import copy
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np

from longstride.errors import EndlessEpisodeError
from longstride.policies.spec import PolicySpec
from longstride.rollout.guarded_collection import run_with_timeout
from longstride.simulators.check.time_limit import TooLong
from longstride.simulators.simulator import Simulator
from longstride.training.evaluation.compiled import CompiledPlayer, Length, Played
from longstride.training.evaluation.evaluate import PERIODIC, build_player, summarise
from longstride.training.evaluation.gymnasium import GymnasiumPlayer

OF_A_RUN = 10
"""Steps of a run for one step of all of its evaluations together."""

CHOICE = "choice of the policy"
"""Random streams of the comparison at the end of a run, which are not those that chose what is compared."""

RARE, LONG = "rare states", "long episodes"
"""Random streams of what is played from rarely visited states, and of episodes that are longer than usual."""

_EVALUATIONS, _EPISODES, _MOST_EPISODES, _MOST_STEPS = 8, 4, 100, 200_000
"""Evaluations that no setting names: about how many, the fewest and most episodes of one, and its most steps."""

_COMPILING = 120.0
"""Seconds that compiling may take."""

_SHORTEST = 1_000
"""Steps below which no episode is cut."""

PlayEpisodes = Callable[[np.ndarray, str, Iterable[int], str], list[Played]]
"""Plays numbered episodes of some streams with an actor's parameters, as ``trained`` or ``trained_sampled``."""

PlayFrom = Callable[[np.ndarray, str, np.ndarray, int, int], list[Played]]
"""Plays an actor's parameters from some states, ``state_dtype``[n], for at most so many steps, with random streams that
are numbered from the last argument on."""

PlayLong = Callable[[np.ndarray, str, Iterable[int], int], list[Played]]
"""Plays numbered episodes as :data:`PlayEpisodes` does, of at most so many steps."""


class Evaluated(NamedTuple):
    """An evaluation."""

    record: dict[str, Any]  # JSON values: episodes, seconds, mean and 95 % interval of each number; empty if given up
    values: list[float | None]  # main metric of each episode, None if it is missing
    steps: int  # environment steps of all episodes
    seconds: float = 0.0


@dataclass(frozen=True)
class PeriodicEvaluation:
    """Evaluations while a run trains: the greedy policy on the same random streams every time.

    Their streams are no streams of training, so a run learns the same bits with and without them. Nor are they the
    streams of ``--mode evaluate``: they choose the best checkpoint, and a choice flatters what it was made by.
    """

    play: PlayEpisodes  # plays episodes of a policy
    length: Length  # steps and episodes of an evaluation
    episode_steps: int  # most steps, or the usual steps, of an episode
    every: int = 0  # iterations from one evaluation to the next; 0 where steps decide
    interval: int = 0  # training steps from one evaluation to the next; 0 for the comparison at the end alone
    cut: int = 0  # steps after which long episodes are cut; 0 if none is
    most: float = np.inf  # steps that all evaluations may take together in a run of the planned length
    expects: bool = False  # whether episodes may take more steps than the simulator expects
    play_from: PlayFrom = lambda params, name, states, steps, first: []  # plays from given states, if the simulator can
    play_long: PlayLong = lambda params, name, episodes, longest: []  # plays longer episodes, if the simulator can

    @property
    def asked(self) -> bool:
        """Whether the user named the interval."""
        return self.every > 0

    @property
    def at_intervals(self) -> bool:
        """Whether the policy is evaluated before the end."""
        return self.every > 0 or self.interval > 0

    def due(self, iteration: int, is_last: bool, trained: int = 0, evaluated_at: int = 0) -> bool:
        """Return whether the policy is evaluated after an iteration, counted from 1; always after the last.

        ``trained`` are the training steps so far, ``evaluated_at`` those before the evaluation before.
        """
        if self.every:
            return is_last or iteration % self.every == 0
        return self.interval > 0 and (is_last or trained // self.interval > evaluated_at // self.interval)

    def affords(self, steps: float, spent: int, trained: int) -> bool:
        """Return whether the fewest episodes of so many steps leave as many for the comparison at the end.

        ``spent`` are the steps of all evaluations so far, ``trained`` those of training.
        """
        return spent + 2 * self.length.least * steps <= max(self.most, trained / OF_A_RUN)

    def run(self, actor_params: np.ndarray, main_metric: str, spent: int = 0, trained: int = 0) -> Evaluated:
        """Play the fewest episodes, then as many more as make the named number of steps.

        If the first episode shows that they take too many steps, it is the only one: no record, no values. For
        ``spent`` and ``trained`` see :meth:`affords`.
        """
        begin, length, played = time.perf_counter(), self.length, list[Played]()
        if self.expects:
            played = self.play(actor_params, "trained", range(1), PERIODIC)
            if not self.affords(played[0].steps, spent, trained):
                return Evaluated({}, [], played[0].steps, time.perf_counter() - begin)
        played += self.play(actor_params, "trained", range(len(played), length.least), PERIODIC)
        each = max(sum(one.steps for one in played) / length.least, 1.0)
        more = range(length.least, min(int(length.steps / each), length.most))
        played += self.play(actor_params, "trained", more, PERIODIC)
        records = [one.record for one in played]
        metrics = {n: v for n, v in summarise(records).items() if not isinstance(v["mean"], list)}
        seconds, steps = time.perf_counter() - begin, sum(one.steps for one in played)
        record = {"episodes": len(records), "seconds": seconds, "metrics": metrics}
        return Evaluated(record, [each.get(main_metric) for each in records], steps, seconds)

    def budget(self, trained: int, spent: int) -> float:
        """Return the steps that the comparison at the end may take.

        ``spent`` are the steps of all evaluations so far; those that the user has asked for leave it a part.
        """
        share = trained / OF_A_RUN
        left = max(share - spent, share / 2 if self.asked else 0.0)
        return min(left, OF_A_RUN * _MOST_STEPS)

    def further_budget(self, outcomes: int) -> float:
        """Return the steps of long episodes at the end, where others are cut.

        ``outcomes`` are further ones of the steps of training, each of which is a step of the simulator as well.
        """
        return min(outcomes / OF_A_RUN, OF_A_RUN * _MOST_STEPS) if self.cut else 0.0


def asked_evaluation(
    simulator: Simulator, spec: PolicySpec, every: int, episodes: int, seed: int, threads: int, patience: float = 0.0
) -> PeriodicEvaluation:
    """Return evaluations after every so many iterations, of so many whole episodes; see :class:`EpisodesPlayer`."""
    play = EpisodesPlayer(simulator, spec, seed, threads, patience)
    usual = simulator.expected_steps or simulator.max_steps
    return PeriodicEvaluation(play, Length(0, episodes, episodes), usual, every=every, play_from=play.play_from)


def unasked_evaluation(
    simulator: Simulator, spec: PolicySpec, total: int, seed: int, threads: int, patience: float = 0.0
) -> PeriodicEvaluation | None:
    """Return evaluations of about a tenth of a run's ``total`` steps, half of it at the end; None in short runs.

    Long episodes are cut, unless the simulator wants whole ones. A run that is too short for evaluations at intervals
    has the comparison at its end alone. For ``patience`` see :class:`EpisodesPlayer`.
    """
    share, episode, played = total // OF_A_RUN, simulator.expected_steps or simulator.max_steps, simulator
    if not simulator.hooks.whole_episodes:
        longest = min(max(share // (2 * _EVALUATIONS * _EPISODES), _SHORTEST), _MOST_STEPS // _EPISODES)
        played = copy(simulator)
        played.max_steps = min(simulator.max_steps, longest)
        episode = min(episode, longest)
    if share < _EPISODES * episode:
        return None
    count = min(share // 2 // (_EPISODES * episode), _EVALUATIONS + 1) - 1  # one more before training
    interval = total // count if count > 0 else 0
    steps = min(share // 2 // (count + 1), _MOST_STEPS) if count > 0 else 0
    length = Length(steps, _EPISODES, _MOST_EPISODES)
    play, expects = EpisodesPlayer(played, spec, seed, threads, patience), played.max_steps > episode
    cut = played.max_steps if played.max_steps < simulator.max_steps else 0
    return PeriodicEvaluation(play, length, episode, 0, interval, cut, share, expects, play.play_from, play.play_long)


class EpisodesPlayer:
    """Plays a policy: a :data:`PlayEpisodes`, which is compiled at the first call.

    An episode of a compiled simulator may take ``patience`` seconds, beside the time that compiling takes; 0 for no
    limit. It is the thread of a call that is waited for, and that goes on after the limit.
    """

    def __init__(self, simulator: Simulator, spec: PolicySpec, seed: int, threads: int, patience: float = 0.0) -> None:
        self._simulator, self._spec, self._seed, self._threads = simulator, spec, seed, threads
        self._name, self._patience = type(simulator).__name__, patience if simulator.compiled else 0.0

    @cached_property
    def _player(self) -> CompiledPlayer | GymnasiumPlayer:
        return build_player(self._simulator, self._spec, self._threads)

    def __call__(self, params: np.ndarray, name: str, episodes: Iterable[int], streams: str) -> list[Played]:
        """Play numbered episodes of some streams."""
        numbers, player = list(episodes), self._player
        return self._in_time(len(numbers), lambda: player.play_each(name, params, numbers, self._seed, streams))

    def play_from(self, params: np.ndarray, name: str, states: np.ndarray, steps: int, first: int) -> list[Played]:
        """Play from some states, ``state_dtype``[n], of a compiled simulator; see :data:`PlayFrom`."""
        player = self._player
        assert isinstance(player, CompiledPlayer)
        play = partial(player.play_from, name, params, states, steps, self._seed, RARE, first)
        return self._in_time(len(states), play)

    def play_long(self, params: np.ndarray, name: str, episodes: Iterable[int], longest: int) -> list[Played]:
        """Play numbered episodes of at most ``longest`` steps; see :data:`PlayLong`.

        The caller keeps to the simulator's own limit, which an evaluation that cuts episodes does not know.
        """
        numbers = list(episodes)
        play = partial(self._player.play_each, name, params, numbers, self._seed, LONG, longest)
        return self._in_time(len(numbers), play)

    def _in_time(self, episodes: int, play: Callable[[], list[Played]]) -> list[Played]:
        """Return what some episodes have played.

        Raises:
            EndlessEpisodeError: they take too long.
        """
        try:
            return run_with_timeout(self._patience and _COMPILING + self._patience * episodes, play)
        except TooLong:
            raise EndlessEpisodeError(
                f"{self._name}: {episodes} episodes of an evaluation took longer than EPISODE_TIME_LIMIT = "
                f"{self._patience:g} s each; raise it if nothing is wrong. With --evaluate-every 0 the rollouts "
                "find the line in which it stays."
            ) from None
