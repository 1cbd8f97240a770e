"""After training: whether a heuristic is better than the policy, or the policy that training began with."""

from longstride.simulators.simulator import Simulator
from longstride.training.evaluation.comparison import compare
from longstride.training.evaluation.compiled import CompiledPlayer
from longstride.training.evaluation.evaluate import Evaluation, best_heuristic
from longstride.training.evaluation.trained_policy import TrainedPolicy

SHORT_RUN = 60.0
"""Seconds of training from which a run is checked: compiling what plays would take longer than a shorter one."""

EPISODES = 8
"""Episodes of each policy."""

_STREAMS = "last check"
_NOT_PLAYED = "random"


def last_check(simulator: Simulator, short: Simulator, policy: TrainedPolicy, seed: int, threads: int) -> list[str]:
    """Return a sentence for whatever is shown to be better than the trained policy in some short episodes.

    They are the best heuristic and the policy that training began with; all play greedily on the same random streams.

    Args:
        simulator: simulator of the run.
        short: the same with short episodes.
        policy: trained policy.
        seed: seed of the random streams.
        threads: threads that play, which change no result.
    """
    player, result = CompiledPlayer(short, policy.spec, threads), Evaluation(EPISODES, seed=seed)
    names = [name for name in simulator.heuristics if name != _NOT_PLAYED]
    params = {"trained": policy.actor_params, "untrained": policy.untrained_params}
    params = {name: value for name, value in params.items() if value is not None}
    for name in [*params, *names]:
        result.records[name], _ = player.play(name, params.get(name), EPISODES, seed, _STREAMS)
    return sentences(result, simulator)


def sentences(result: Evaluation, simulator: Simulator) -> list[str]:
    """Return the sentences of :func:`last_check` about the episodes of all policies."""
    lines, best = [], best_heuristic(result.records, simulator)
    for name, what in (("untrained", "than its start"), (best, f"than the best heuristic, {best}")):
        verdict = compare(result, simulator, "trained", name) if name in result.records else None
        if verdict is not None and verdict.word == "worse":
            lines.append(
                f"The trained policy is worse {what}, in {result.episodes} short episodes ({verdict.long}). Train "
                "longer, or with --evaluate-every 10: then EVALUATION_EPISODES choose the best policy on the way."
            )
    return lines
