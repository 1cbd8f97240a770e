"""``longstride.load_recommender``: from a run directory to recommendations in a running process, without torch."""

import warnings
from pathlib import Path

from longstride.process.recommend.command import recommender_of
from longstride.process.recommend.recommender import Recommender
from longstride.settings import load_settings


def load_recommender(directory: str | Path) -> Recommender:
    """Return what recommends by the policy of a run of a process.

    A newer checkpoint that is damaged is passed over with a warning.

    Args:
        directory: run directory, for the policy that --mode evaluate plays, or a checkpoint directory.

    Raises:
        UserError: there is no intact checkpoint of this version, or it is of no process.
    """
    damaged: list[str] = []
    recommender, _ = recommender_of(Path(directory), load_settings(None, {}), damaged.append)
    for sentence in damaged:
        warnings.warn(sentence, stacklevel=2)
    return recommender
