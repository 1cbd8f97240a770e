"""The policy that a run began with, for comparison with what it became."""

from dataclasses import replace
from pathlib import Path

from longstride.config import load_values
from longstride.errors import UserError
from longstride.policies.compiled.forward import align_params
from longstride.policies.parameter_layout import ACTION_MEAN, ACTION_SCALE
from longstride.simulators.simulator import Simulator
from longstride.training.assembly.components import new_model
from longstride.training.assembly.run_settings import values_of_a_run
from longstride.training.evaluation.trained_policy import TrainedPolicy
from longstride.training.run_directory.directory import run_directory_of

_SCALES = ("observation_mean", "observation_scale", ACTION_MEAN, ACTION_SCALE)


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
