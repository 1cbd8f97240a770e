"""A kernel and its callees, compiled as one unit: each callee once, without machine code of its own, still callable."""

import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event

import numba
import numpy as np
import pytest
from numba import njit, types
from numba.core import config, event
from numba.core.dispatcher import Dispatcher

from longstride.jit_cache import whole_kernel
from longstride.jit_cache.cache import cached


def build_helper(factor=2.0):
    """Return a new function for each test, as what was compiled once stays so."""

    @njit
    def helper(values, i):
        if i >= len(values):
            raise IndexError("there is no such value")
        return factor * values[i]

    return helper


def build_kernel(helper):
    @njit
    def kernel(values):
        total = 0.0
        for i in range(len(values)):
            total += helper(values, i)
        return total

    return cached(kernel)


VALUES = np.arange(4.0)
SHIPPED = whole_kernel.TESTED


@pytest.fixture(autouse=True)
def as_without_tests(monkeypatch):
    """Keep nothing on disk, and compile only kernels in units, where the other tests do so with everything.

    Whatever version of Numba is here counts as tested: these are its tests.
    """
    monkeypatch.setattr(whole_kernel, "TESTED", (".".join(numba.__version__.split(".")[:2]),))
    monkeypatch.setenv("LONGSTRIDE_KERNEL_CACHE", "off")
    monkeypatch.setattr(Dispatcher, "compile", whole_kernel._UNIT.compile)


@pytest.fixture
def compilations():
    """Count what Numba compiles."""
    with event.install_recorder("numba:compile") as recorder:
        yield lambda function: sum(
            started.is_start and started.data["dispatcher"] is function for _, started in recorder.buffer
        )


@pytest.mark.parametrize(
    ("version", "in_units"), [("0.68.9", True), ("0.69.0", False), ("0.680.0", False), ("1.68", False)]
)
def test_only_tested_versions_of_numba_compile_in_units(monkeypatch, version, in_units):
    monkeypatch.setattr(whole_kernel, "TESTED", ("0.68",))
    monkeypatch.setattr(numba, "__version__", version)
    kernel = build_kernel(build_helper())
    assert hasattr(kernel._compiler.compile, "args") == in_units
    assert kernel(VALUES) == 12.0


def test_the_version_of_numba_that_is_installed_by_default_is_tested(monkeypatch):
    monkeypatch.setattr(whole_kernel, "TESTED", SHIPPED)
    constraints = Path(__file__).resolve().parents[2] / "constraints.txt"
    (version,) = re.findall(r"^numba==(\S+)", constraints.read_text(), re.MULTILINE)
    assert whole_kernel._is_tested(version), "add it to TESTED if the other tests of this file pass"


def test_a_callee_is_compiled_once_for_several_kernels(compilations):
    helper = build_helper()
    assert build_kernel(helper)(VALUES) == build_kernel(helper)(VALUES) == 12.0
    assert compilations(helper) == 1
    assert not helper.overloads, "no machine code of its own"


@pytest.mark.parametrize("first", ["kernel", "helper"])
def test_python_calls_callees_too(first):
    helper = build_helper()
    kernel = build_kernel(helper)
    for _ in range(2):
        if first == "kernel":
            assert kernel(VALUES) == 12.0
        assert helper(VALUES, 3) == 6.0
        assert kernel(VALUES) == 12.0
    assert kernel(VALUES[:2]) == 2.0


def test_a_callee_raises_for_its_caller():
    helper = build_helper()

    @njit
    def beyond(values):
        return helper(values, 9)

    with pytest.raises(IndexError, match="there is no such value"):
        cached(beyond)(VALUES)


@pytest.mark.filterwarnings("ignore:First-class function type")
def test_a_function_whose_address_is_taken_has_one():
    @njit
    def double(x):
        return 2.0 * x

    @njit(types.float64(types.FunctionType(types.float64(types.float64)), types.float64))
    def apply(function, x):  # whichever function, known at run time only
        return function(x) + 1.0

    @njit
    def negate(x):
        return -x

    @njit
    def kernel(x):
        return apply(double, x) + double(x) + negate(x)

    assert cached(kernel)(3.0) == 10.0
    assert list(double.overloads), "complete"
    assert not negate.overloads, "in the unit"
    assert double(3.0) == 6.0


def test_what_numba_keeps_on_disk_itself_is_complete(tmp_path, monkeypatch):
    monkeypatch.setattr(config, "CACHE_DIR", str(tmp_path))

    @njit(cache=True)
    def kept(values, i):
        return values[i]

    assert build_kernel(kept)(VALUES) == 6.0
    assert list(kept.overloads)
    assert list(tmp_path.rglob("*.nbc"))


def test_what_is_no_kernel_is_compiled_in_numbas_way():
    helper = build_helper()

    @njit
    def caller(values):
        return helper(values, 3)

    assert caller(VALUES) == 6.0
    assert list(helper.overloads)


def test_another_thread_may_call_a_callee_meanwhile(monkeypatch):
    helper, begun, finalize = build_helper(), Event(), whole_kernel._Library.finalize

    def slow(library):
        begun.set()
        finalize(library)

    monkeypatch.setattr(whole_kernel._Library, "finalize", slow)
    with ThreadPoolExecutor(2) as pool:
        total = pool.submit(build_kernel(helper), VALUES)
        value = pool.submit(lambda: begun.wait() and helper(VALUES, 1))
        assert (total.result(), value.result()) == (12.0, 2.0)


@pytest.mark.parametrize("what", ["finalize", "add_linking_library"])
def test_a_numba_that_works_otherwise_compiles_in_its_own_way(monkeypatch, what):
    def unknown(*_):
        raise AttributeError("in another Numba this has another name")

    before = vars(Dispatcher).copy()
    monkeypatch.setattr(whole_kernel._Library, what, unknown)
    inner = build_helper()

    @njit
    def helper(values, i):
        return inner(values, i)

    assert build_kernel(helper)(VALUES) == 12.0
    assert list(helper.overloads)
    assert vars(Dispatcher) == before
