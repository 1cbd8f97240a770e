"""``longstride.load_recommender``: recommendations from a run directory, without torch."""

import warnings
from pathlib import Path

from longstride.process.recommend.command import recommender_of
from longstride.process.recommend.recommender import Recommender
from longstride.settings import load_settings


def load_recommender(directory: str | Path) -> Recommender:
    """Return a recommender with the policy of a process run.

    A damaged newer checkpoint is skipped with a warning.

    Args:
        directory: run directory, whose policy is that of --mode evaluate, or a checkpoint directory.

    Raises:
        UserError: there is no intact checkpoint of this version, or it does not belong to a process.
    """
    damaged: list[str] = []
    recommender, _ = recommender_of(Path(directory), load_settings(None, {}), damaged.append)
    for sentence in damaged:
        warnings.warn(sentence, stacklevel=2)
    return recommender
