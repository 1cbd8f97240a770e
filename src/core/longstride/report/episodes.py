"""Episodes that are played for the section of a report that a simulator writes itself."""

from longstride.simulators.hooks import PlayedEpisode
from longstride.simulators.simulator import Simulator
from longstride.training.evaluation.compiled import CompiledPlayer
from longstride.training.evaluation.trained_policy import TrainedPolicy

_STREAMS, _EPISODE = "evaluation", 0
"""The first episode of an evaluation."""


def play_episodes(simulator: Simulator, trained: TrainedPolicy, seed: int) -> list[PlayedEpisode]:
    """Return the first episode of an evaluation under the trained policy and the simulator's ``report_policies``.

    Args:
        simulator: simulator to play.
        trained: trained policy.
        seed: seed of the evaluation.
    """
    player = CompiledPlayer(simulator, trained.spec, 1)
    episodes = []
    for name in ("trained", *simulator.hooks.report_policies):
        params = trained.actor_params if name == "trained" else None
        actions = player.actions(name, params, _EPISODE, seed, _STREAMS)
        episodes.append(PlayedEpisode(name, actions, seed, _STREAMS, _EPISODE))
    return episodes
