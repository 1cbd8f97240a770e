"""Minimal gated recurrent units; :mod:`longstride.policies.families.mingru.network` has the formulas."""

from itertools import pairwise

from longstride.policies.compiled.network import Network
from longstride.policies.parameter_layout import Matrices
from longstride.policies.spec import Family, PolicySpec, Remembering


def _matrices(spec: PolicySpec, hidden: tuple[int, ...]) -> Matrices:
    """Return the matrix that reads the observation, then one of three columns a unit for each layer with memory."""
    layers = pairwise(hidden[:1] + hidden)
    return [(spec.observation_size, hidden[0]), *((inputs, 3 * units) for inputs, units in layers)]


def _state_size(spec: PolicySpec, hidden: tuple[int, ...]) -> int:
    """Return one value for each unit."""
    return sum(hidden)


def _reach(spec: PolicySpec) -> int:
    """Return 0: a state remembers its whole episode."""
    return 0


def _build_network(spec: PolicySpec) -> Network:
    """Compile the actor."""
    from longstride.policies.families.mingru.compiled import build_mingru  # here, because it takes Numba to import

    return build_mingru(spec)


MINGRU = Family("mingru", _matrices, _build_network, memory=Remembering(_state_size, _reach))
