"""Lines about what takes long come while it lasts, and none about what is fast."""

import threading

from longstride.slow_steps import SlowSteps


def test_a_step_that_lasts_is_said_again_and_again_with_its_place():
    lines, enough, threads = list[str](), threading.Event(), threading.active_count()

    def say(line):
        lines.append(line)
        if len(lines) == 3:
            enough.set()

    with SlowSteps(say, every=0.001) as steps:
        steps.begin("Mining the log", 7)
        for step in ("working hours", "delays"):
            steps.next(step)
        assert enough.wait(60)
    said = len(lines)
    assert lines[-1].startswith("Mining the log: delays (2 of 7), ") and lines[-1].endswith(" s so far ...")
    assert threading.active_count() == threads and len(lines) == said


def test_what_is_fast_is_silent():
    lines = list[str]()
    with SlowSteps(lines.append) as steps:
        steps.begin("Reading log.csv")
    with SlowSteps(None, every=0.0) as steps:
        steps.begin("Reading log.csv")
    assert lines == []


def test_an_error_ends_the_lines():
    lines, threads = list[str](), threading.active_count()
    try:
        with SlowSteps(lines.append, every=0.001) as steps:
            steps.begin("Reading log.csv")
            raise ValueError
    except ValueError:
        said = len(lines)
    assert len(lines) == said and threading.active_count() == threads
