"""One generator that plays for many streams: compiled code puts the state of a stream's PCG64 in, and takes it out.

Handing a generator to compiled code takes about 10 µs, and a loop is compiled for a fixed number of them. The state of
a PCG64 is five words of 64 bits: its state, its increment, and the half of a word that a draw of 32 bits leaves.
"""

import ctypes

import numpy as np
from numba import njit

from longstride.errors import UserError
from longstride.rollout.fault_locator import generator_in

WORDS = 5
"""Words of 64 bits of a generator's state."""

_STATE_WORDS = 4


class SwappedGenerator:
    """A generator with its state as arrays: ``words`` uint64[4], ``rest`` uint64[1], which are its own memory.

    Raises:
        UserError: NumPy keeps the state elsewhere than where it is looked for.
    """

    def __init__(self) -> None:
        self.generator = generator_in({})
        self.words, self.rest = memory_of(self.generator)


def words_of(generator: np.random.Generator) -> np.ndarray:
    """Return uint64[5], the state of a PCG64."""
    return np.concatenate(memory_of(generator))


def state_of(words: np.ndarray) -> dict[str, object]:
    """Return the state of a generator, as NumPy describes it, from its uint64[5] words."""
    generator = generator_in({})
    state, rest = memory_of(generator)
    state[:], rest[:] = words[:_STATE_WORDS], words[_STATE_WORDS:]
    return dict(generator.bit_generator.state)


def memory_of(generator: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return views of a generator's memory; NumPy's ``pcg64_state`` is a pointer to four words, and half a word."""
    address = generator.bit_generator.ctypes.state_address
    begin = ctypes.c_void_p.from_address(address).value or 0
    rest = (ctypes.c_uint64 * 1).from_address(address + ctypes.sizeof(ctypes.c_void_p))
    state = (ctypes.c_uint64 * _STATE_WORDS).from_address(begin)
    return np.ctypeslib.as_array(state), np.ctypeslib.as_array(rest)


def require_known_layout() -> None:
    """Check that a generator's state lies where it is looked for.

    Raises:
        UserError: it does not, in a NumPy of another layout.
    """
    one = np.random.Generator(np.random.PCG64(12345))
    one.integers(0, 100, dtype=np.uint32)  # leaves half of a word
    if state_of(words_of(one)) != one.bit_generator.state:
        raise UserError(
            f"NumPy {np.__version__} keeps the state of its generators elsewhere than the collector for many streams "
            "looks for it; set COLLECT_ON to cpu."
        )


@njit(nogil=True)
def put_in(saved, words, rest):  # type: ignore[no-untyped-def]
    """Give the generator of ``words`` and ``rest`` the state of uint64[5] ``saved``."""
    for j in range(_STATE_WORDS):
        words[j] = saved[j]
    rest[0] = saved[_STATE_WORDS]


@njit(nogil=True)
def take_out(saved, words, rest):  # type: ignore[no-untyped-def]
    """Write the state of the generator to uint64[5] ``saved``."""
    for j in range(_STATE_WORDS):
        saved[j] = words[j]
    saved[_STATE_WORDS] = rest[0]
