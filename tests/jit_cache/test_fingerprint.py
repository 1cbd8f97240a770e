"""What a kernel's fingerprint tells apart, and what it refuses to judge."""

import enum
from collections import namedtuple
from types import ModuleType

import numpy as np
import pytest
from numba import njit, typeof, types
from numba.core import config
from numba.extending import intrinsic

from longstride.jit_cache import source_digest
from longstride.jit_cache.fingerprint import fingerprint
from longstride.jit_cache.source_digest import UnhashableError
from longstride.policies.compiled.sparse_matvec import add_rows

MACHINE = ("x86_64", "cpu", "features")
ARGUMENTS = (types.float64,)


class Colour(enum.IntEnum):
    RED = 1


def with_closure(value):
    @njit
    def inner(x):
        return x, value

    @njit
    def outer(x):
        return inner(x)

    return outer


def of(dispatcher, arguments=ARGUMENTS, machine=MACHINE):
    return fingerprint(dispatcher, arguments, machine)


def test_the_same_function_built_again_has_the_same_fingerprint():
    assert of(with_closure(1.0)) == of(with_closure(1.0))
    assert of(with_closure(np.arange(3))) == of(with_closure(np.arange(3)))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (1.0, 2.0),
        (0.0, -0.0),
        (1, 1.0),
        (1, True),
        ("1", 1),
        ((1, 2), (2, 1)),
        (((1,), 2), (1, (2,))),
        (np.arange(3), np.arange(1, 4)),
        (np.arange(3), np.arange(3, dtype=np.int32)),
        (np.zeros((2, 3)), np.zeros((3, 2))),
        (np.zeros((2, 3)), np.zeros((2, 3), order="F")),
        (np.dtype([("a", "f8")]), np.dtype([("b", "f8")])),
        (np.float32(1), np.float64(1)),
        (np.float32, np.float64),
        (np.sin, np.cos),
        (Colour.RED, 1),
        (namedtuple("P", "a b")(1, 2), namedtuple("P", "b a")(1, 2)),
        (njit(lambda x: x), njit(lambda x: -x)),
        (njit(lambda x: x), njit(fastmath=True)(lambda x: x)),
        (types.int64, types.int32),
    ],
    ids=lambda value: repr(value).split(" at 0x")[0],  # an address differs from process to process
)  # fmt: skip
def test_a_value_that_a_callee_reaches_counts(one, other):
    assert of(with_closure(one)) != of(with_closure(other))


def test_options_arguments_machine_and_settings_of_numba_count(monkeypatch):
    kernel = with_closure(1.0)
    pair = namedtuple("pair", "a b")(1.0, 1.0), namedtuple("pair", "b a")(1.0, 1.0)
    found = [
        of(kernel),
        of(njit(boundscheck=True)(kernel.py_func)),
        of(njit(nogil=True)(kernel.py_func)),
        of(njit(error_model="numpy")(kernel.py_func)),
        of(kernel, (types.float32,)),
        *(of(kernel, (typeof(each),)) for each in pair),
        of(kernel, (typeof(np.zeros(1, [("a", "f8")])),)),
        of(kernel, (typeof(np.zeros(1, [("b", "f8")])),)),
        of(kernel, machine=("x86_64", "cpu", "other features")),
    ]
    for setting, value in (("BOUNDSCHECK", 1), ("OPT", 0), ("DEBUGINFO_DEFAULT", 1)):
        with monkeypatch.context() as changed:
            changed.setattr(config, setting, value)
            found.append(of(kernel))
    assert len(set(found)) == len(found)


def test_our_own_sources_count(tmp_path, monkeypatch):
    before = of(with_closure(1.0))
    (tmp_path / "module.py").write_text("a = 1")
    monkeypatch.setattr(source_digest, "_PACKAGE", tmp_path)
    source_digest.package_digest.cache_clear()
    try:
        first = of(with_closure(1.0))
        (tmp_path / "module.py").write_text("a = 2")
        source_digest.package_digest.cache_clear()
        assert len({before, first, of(with_closure(1.0))}) == 3
    finally:
        source_digest.package_digest.cache_clear()


def test_the_values_of_a_module_count_that_the_code_names(tmp_path, monkeypatch):
    settings = ModuleType("settings_of_a_test")
    settings.__file__ = str(tmp_path / "settings.py")
    (tmp_path / "settings.py").write_text("")
    monkeypatch.setitem(__import__("sys").modules, "settings_of_a_test", settings)

    def build():
        @njit
        def kernel(x):
            return x * settings.scale

        return kernel

    settings.scale, settings.other = 1.0, 1.0
    first = of(build())
    settings.other = 2.0
    assert of(build()) == first, "no code names it"
    settings.scale = 2.0
    second = of(build())
    assert second != first
    (tmp_path / "settings.py").write_text("# it may do something when it is imported")
    assert of(build()) not in (first, second)


@pytest.mark.parametrize("value", [{}, object(), lambda x: x, np.array([None]), with_closure, ModuleType("nowhere")])
def test_what_is_not_known_is_not_judged(value):
    with pytest.raises(UnhashableError):
        of(with_closure(value))


@intrinsic
def generated(context, value):
    return value(value), lambda context, builder, signature, arguments: arguments[0]


def test_code_that_is_generated_is_judged_by_our_own_sources_only():
    assert of(with_closure(add_rows)) != of(with_closure(1.0))
    with pytest.raises(UnhashableError, match="generated, which generates code"):
        of(with_closure(generated))
