"""Whether a policy does better by its likeliest actions or by draws."""

import numpy as np

from longstride.simulators.simulator import Simulator
from longstride.training.evaluation.comparison import Verdict, compare
from longstride.training.evaluation.compiled import CompiledPlayer
from longstride.training.evaluation.evaluate import Evaluation
from longstride.training.evaluation.trained_policy import TrainedPolicy
from longstride.training.run_directory.acting_file import draws_by_default, keep_acting, shown_by_rare_states
from longstride.training.run_directory.directory import RunDirectory

_STEPS, _FEWEST, _MOST = 400_000, 4, 30
"""Environment steps of :func:`compare_draws`, and its fewest and most episodes."""

_STREAMS = "last check"


def draws_against_likeliest(result: Evaluation, simulator: Simulator) -> Verdict | None:
    """Return how a trained policy's draws compare with its likeliest actions; None if not both were played."""
    if not {"trained", "trained_sampled"} <= result.records.keys():
        return None
    return compare(result, simulator, "trained_sampled", "trained")


def compare_draws(
    simulator: Simulator, policy: TrainedPolicy, seed: int, threads: int, steps: int = _STEPS
) -> Verdict | None:
    """Play a compiled simulator both ways on the same random streams, about so many steps each."""
    steps = min(steps, _STEPS)
    episodes = min(max(steps // (simulator.expected_steps or simulator.max_steps), _FEWEST), _MOST)
    player, result = CompiledPlayer(simulator, policy.spec, threads), Evaluation(episodes, seed=seed)
    for name in ("trained", "trained_sampled"):
        result.records[name], _ = player.play(name, policy.actor_params, episodes, seed, _STREAMS)
    return draws_against_likeliest(result, simulator)


def acting_sentence(verdict: Verdict | None) -> str:
    """Return which way is better; empty if no difference is shown."""
    if verdict is None or verdict.word == "no difference shown":
        return ""
    if verdict.word == "better":
        return f"Drawing its actions is better than taking the most likely ones: {verdict.means()} ({verdict.long})."
    return f"Drawing its actions is worse than taking the most likely ones: {verdict.means()} ({verdict.long})."


def keep_verdict(directory: RunDirectory, verdict: Verdict | None, params: np.ndarray) -> None:
    """Keep with a run which way is better for a policy with these parameters of its actor, float32[*].

    Where no difference is shown, what rarely visited states have shown at the end of the run stands.

    Raises:
        UserError: it cannot be written.
    """
    if verdict is None:
        return
    rare = shown_by_rare_states(directory.path, params)
    stands = bool(rare) and verdict.word == "no difference shown" and draws_by_default(directory.path, params)
    keep_acting(directory, stands or verdict.word == "better", {**verdict.as_json(), **rare}, params)
