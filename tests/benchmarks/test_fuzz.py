"""A few hundred damaged inputs of each kind, and that the fuzzer would notice."""

from collections import Counter

import pytest

pytest.importorskip("pydantic")

from benchmarks import fuzz


@pytest.mark.parametrize("kind", fuzz.KINDS)
def test_damaged_input_is_refused_in_a_sentence_or_read(kind):
    outcomes = fuzz.fuzz(kind, 150)
    assert outcomes["refused"] > 30, "the mutations are no damage"
    assert outcomes["read"] > 0, "nothing gets past the first check"
    assert outcomes.total() >= 150


@pytest.mark.parametrize("error", [KeyError("flow"), MemoryError(), TimeoutError()])
def test_anything_but_a_sentence_is_a_failure(error, monkeypatch):
    def read(content, folder):
        if b"[[" in content:
            raise error

    monkeypatch.setitem(fuzz.KINDS, "csv", (lambda: b"case", read))
    with pytest.raises(type(error)):
        fuzz.fuzz("csv", 200)


def test_an_input_that_hangs_is_a_failure(monkeypatch):
    def read(content, folder):
        while content != b"case":
            pass

    monkeypatch.setitem(fuzz.KINDS, "csv", (lambda: b"case", read))
    monkeypatch.setattr(fuzz, "SECONDS", 1)
    fuzz.signal.signal(fuzz.signal.SIGALRM, fuzz._too_long)
    with pytest.raises(fuzz.TooLongError):
        fuzz.try_input("csv", b"other", Counter())
