"""The setup of a run from values alone."""

from longstride.settings import Settings
from longstride.simulators.loading import LoadedSimulator
from longstride.training.assembly import setup


def set_up(config, simulator):
    """Return what follows from values of settings and a simulator object."""
    return setup.set_up(Settings(config), LoadedSimulator(simulator, {}))
