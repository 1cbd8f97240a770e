"""The measured bandwidth of a core's caches."""

import numpy as np
import pytest

from longstride.hardware import diagnostics
from longstride.hardware.diagnostics import measure_cache_bandwidth


def test_the_measured_bandwidth_counts_three_arrays(monkeypatch):
    """A clock that moves by a millisecond a look: ten passes over three arrays of 64 KiB in each."""
    clock = iter(np.arange(10**4) / 1000.0)
    monkeypatch.setattr(diagnostics.time, "perf_counter", lambda: next(clock))
    assert measure_cache_bandwidth() == pytest.approx(10 * 3 * 65536 / 1e-3)


def test_this_machine_has_a_bandwidth():
    assert measure_cache_bandwidth() > 0
