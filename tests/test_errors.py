"""The helpers for error sentences."""

from core.errors import one_line, suggestion


def test_a_suggestion_ends_the_sentence():
    assert suggestion("carpole", ["cartpole", "pendulum"]) == "; did you mean cartpole?"
    assert suggestion("zzz", ["cartpole"], "there is cartpole") == "; there is cartpole."
    assert suggestion("zzz", iter(["cartpole"])) == "."


def test_the_text_of_an_error_becomes_one_line():
    assert one_line(ValueError("first\n  second.")) == "first second"
    assert len(one_line(ValueError("word " * 500))) == 300
