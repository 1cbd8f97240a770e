"""Whether a policy does better by its likeliest actions or by draws, as an evaluation has shown; kept with the run."""

import hashlib
from pathlib import Path

import numpy as np

from longstride.simulators.simulator import Simulator
from longstride.training.evaluation.comparison import Verdict, compare
from longstride.training.evaluation.compiled import CompiledPlayer
from longstride.training.evaluation.evaluate import Evaluation
from longstride.training.evaluation.trained_policy import TrainedPolicy
from longstride.training.run_directory.directory import RunDirectory, run_directory_of
from longstride.training.run_directory.files import write_json
from longstride.training.run_directory.ownership import object_in

_STEPS, _FEWEST, _MOST = 400_000, 4, 30
"""Environment steps of :func:`compare_draws`, and its fewest and most episodes."""

_STREAMS = "last check"


def draws_against_likeliest(result: Evaluation, simulator: Simulator) -> Verdict | None:
    """Return how a trained policy's draws compare with its likeliest actions; None if not both were played."""
    if not {"trained", "trained_sampled"} <= result.records.keys():
        return None
    return compare(result, simulator, "trained_sampled", "trained")


def compare_draws(simulator: Simulator, policy: TrainedPolicy, seed: int, threads: int) -> Verdict | None:
    """Play a compiled simulator both ways on the same random streams, as many episodes as take some seconds."""
    episodes = min(max(_STEPS // (simulator.expected_steps or simulator.max_steps), _FEWEST), _MOST)
    player, result = CompiledPlayer(simulator, policy.spec, threads), Evaluation(episodes, seed=seed)
    for name in ("trained", "trained_sampled"):
        result.records[name], _ = player.play(name, policy.actor_params, episodes, seed, _STREAMS)
    return draws_against_likeliest(result, simulator)


def acting_sentence(verdict: Verdict | None) -> str:
    """Return which way is better; empty if no difference is shown."""
    if verdict is None or verdict.word == "no difference shown":
        return ""
    if verdict.word == "better":
        return f"Drawing its actions is better than taking the likeliest ones: {verdict.means()} ({verdict.long})."
    return f"Taking the likeliest actions is better than drawing them: {verdict.short} for draws."


def keep_acting(directory: RunDirectory, verdict: Verdict | None, params: np.ndarray) -> None:
    """Write into a run directory which way is better for a policy with these parameters of its actor, float32[*].

    Raises:
        UserError: it cannot be written.
    """
    if verdict is not None:
        drawn = verdict.word == "better"
        write_json(directory.acting, {"draws": drawn, "policy_sha256": _digest(params), **verdict.as_json()})


def draws_by_default(checkpoint: Path, params: np.ndarray) -> bool:
    """Return whether the policy of a run or checkpoint is to draw: an evaluation of it has shown that to be better."""
    content = object_in(run_directory_of(checkpoint).acting)
    return content.get("draws") is True and content.get("policy_sha256") == _digest(params)


def _digest(params: np.ndarray) -> str:
    return hashlib.sha256(np.ascontiguousarray(params, np.float32).tobytes()).hexdigest()
