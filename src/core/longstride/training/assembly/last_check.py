"""After training: whether a heuristic is better than the policy, or the policy that training began with."""

from copy import copy
from dataclasses import replace
from pathlib import Path

from longstride.config import load_values
from longstride.errors import UserError
from longstride.policies.compiled.forward import align_params
from longstride.policies.parameter_layout import ACTION_MEAN, ACTION_SCALE
from longstride.simulators.hooks import naming_the_hook
from longstride.simulators.simulator import Simulator
from longstride.training.assembly.components import new_model
from longstride.training.assembly.run_settings import values_of_a_run
from longstride.training.evaluation.comparison import compare, optimum_sentence
from longstride.training.evaluation.compiled import CompiledPlayer
from longstride.training.evaluation.evaluate import Evaluation, best_heuristic
from longstride.training.evaluation.trained_policy import TrainedPolicy
from longstride.training.run_directory.directory import run_directory_of

SHORT_RUN = 60.0
"""Seconds of training from which a run is checked: compiling what plays would take longer than a shorter one."""

EPISODES = 8
"""Episodes of each policy."""

_STEPS, _SHORTEST = 400_000, 1_000
"""Most steps of all policies together, and steps below which no episode is cut, without short episodes of its own."""

_STREAMS = "last check"
_NOT_PLAYED = "random"
_SCALES = ("observation_mean", "observation_scale", ACTION_MEAN, ACTION_SCALE)


def with_short_episodes(simulator: Simulator, steps: int = _STEPS) -> Simulator | None:
    """Return a simulator with short episodes: its own, or for one with heuristics long episodes cut; None for no check.

    Episodes are cut so that all policies together make about so many steps, but not below a thousand steps.
    Environments that Python steps are not played.
    """
    with naming_the_hook(simulator, "short_episodes"):
        short: Simulator | None = simulator.hooks.short_episodes(simulator)
    if short is not None or not (simulator.compiled and simulator.heuristics):
        return short
    cut, played = copy(simulator), EPISODES * (len(simulator.heuristics) + 2)
    cut.max_steps = min(simulator.max_steps, max(min(steps, _STEPS) // played, _SHORTEST))
    return cut


def last_check(
    simulator: Simulator, short: Simulator, policy: TrainedPolicy, seed: int, threads: int, remedy: str
) -> list[str]:
    """Return a sentence for whatever is shown to be better than the trained policy in some short episodes.

    They are the optimum, the best heuristic and the policy that training began with; all play greedily on the same
    random streams.

    Args:
        simulator: simulator of the run.
        short: the same with short episodes.
        policy: trained policy.
        seed: seed of the random streams.
        threads: threads that play, which change no result.
        remedy: what to do if the policy is worse, a sentence.

    Returns:
        The sentences; only the reason where the simulator withholds its verdicts.
    """
    if withheld := simulator.hooks.withheld(simulator):
        return [withheld]
    names = [name for name in simulator.heuristics if name != _NOT_PLAYED]
    player, result = CompiledPlayer(short, policy.spec, threads, tuple(names)), Evaluation(EPISODES, seed=seed)
    params = {"trained": policy.actor_params, "untrained": policy.untrained_params}
    params = {name: value for name, value in params.items() if value is not None}
    for name in [*params, *names]:
        result.records[name], _ = player.play(name, params.get(name), EPISODES, seed, _STREAMS)
    return sentences(result, simulator, remedy)


def sentences(result: Evaluation, simulator: Simulator, remedy: str = "Train longer.") -> list[str]:
    """Return the sentences of :func:`last_check` about the episodes of all policies."""
    best, optimum = best_heuristic(result.records, simulator), optimum_sentence(result, simulator)
    lines = [f"In {result.episodes} short episodes: {optimum}"] if optimum else []
    for name, what in (("untrained", "than its start"), (best, f"than the best heuristic, {best}")):
        verdict = compare(result, simulator, "trained", name) if name in result.records else None
        if verdict is not None and verdict.word == "worse":
            lines.append(
                f"The trained policy is worse {what}, in {result.episodes} short episodes ({verdict.long}). {remedy}"
            )
    return lines


def with_untrained(trained: TrainedPolicy, directory: Path, simulator: Simulator) -> TrainedPolicy:
    """Return a trained policy with the parameters that its run began with, where config.json tells of them.

    They see observations in the scales that the run has learned.

    Args:
        trained: policy of a checkpoint.
        directory: run directory, or one of its checkpoint folders.
        simulator: simulator that is played.
    """
    try:
        values = values_of_a_run(run_directory_of(directory))
        config = load_values(values, "config.json")
    except UserError:  # damaged, or of another version
        return trained
    if not values:
        return trained
    model = new_model(config, simulator, trained.spec)
    params = model.flat[: model.layout.actor_size].numpy().copy()
    for name in filter(model.layout.shapes.__contains__, _SCALES):
        offset, (size,) = model.layout.offsets[name], model.layout.shapes[name]
        params[offset : offset + size] = trained.actor_params[offset : offset + size]
    return replace(trained, untrained_params=align_params(params, trained.spec))
