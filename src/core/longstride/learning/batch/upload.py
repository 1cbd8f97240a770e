"""The columns of a rollout that the device needs before anything is computed."""

import math
from typing import Any, NamedTuple

import numpy as np
from torch import Tensor

from longstride.learning.algorithms.interface import RolloutBatch, Samples
from longstride.learning.device_transfer import DeviceBuffers
from longstride.learning.listed.lists import joined_lists
from longstride.learning.memory.chunks import ChunkRows, Chunks
from longstride.learning.steps.interface import Stepper


class Uploaded(NamedTuple):
    """A rollout on the device.

    Attributes:
        samples: columns and parts that trajectories hold; those that are computed are empty. Observations are
            normalised on a GPU.
        final_observations: float32[rows, O], likewise, those after the last step and the cuts of each trajectory.
    """

    samples: Samples
    final_observations: Tensor


def upload_rollout(
    stepper: Stepper, rollout: RolloutBatch, buffers: DeviceBuffers, chunks: ChunkRows | None = None
) -> Uploaded:
    """Return the rollout on the device, for a policy with memory in chunks; the host does not wait for the copies."""
    trajectories, spec = rollout.trajectories, stepper.model.spec
    widths = {} if spec.scores_actions else dict.fromkeys(("masks", "features"), spec.mask_size)

    def column(name: str) -> Tensor:
        return buffers.upload([getattr(t, name) for t in trajectories], name, widths.get(name))

    def upload() -> Uploaded:
        parts = [part for t in trajectories for part in (t.observations[-1:], t.cut_observations)]
        shape = sum(map(len, parts)), parts[0].shape[1]
        final = np.concatenate(parts, out=buffers.host("final_observations", math.prod(shape)).reshape(shape))
        observations = buffers.upload(
            [t.observations[:-1] for t in trajectories], "observations", spec.observation_size
        )
        none = observations.new_empty(len(observations), 0)
        columns: dict[str, Any] = {name: column(name) for name in ("actions", "log_probs", "masks", "features")}
        samples = Samples(observations, **columns, advantages=none, returns=none, values=none)
        if spec.scores_actions:
            actions, lists = joined_lists(trajectories, samples.features)
            samples = samples._replace(actions=actions, features=none, lists=lists)
        if chunks is not None:
            host = chunks.rows, chunks.valid.astype(np.float32), chunks.starts
            places = map(buffers.upload, ([part] for part in host), ("rows", "valid", "starts"))
            samples = samples._replace(chunks=Chunks(column("states"), none, column("begins"), *places))
        final_observations = buffers.upload([final], width=spec.observation_size)
        for each in (observations, final_observations):
            stepper.model.normalise_on_card(each)
        return Uploaded(samples, final_observations)

    return stepper.memory.run("upload", rollout.steps, upload)
