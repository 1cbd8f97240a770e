"""Large states are read like small ones, and refused at the first mistake."""

import json

import pytest

from longstride.errors import UserError
from longstride.process.snapshots.large_state import DIRECT_BYTES, parse_bounded
from longstride.process.snapshots.schema import parse_state

TASKS = [{"case": i, "activity": "A", "since": i / 7, "place": i % 3} for i in range(900)]
STATE = {
    "time": 99,
    "waiting": TASKS,
    "in_work": [{**task, "person": "P"} for task in TASKS],
    "on_shift": [f"person {i}" for i in range(500)],
    "cases": [{"case": str(i), "since": "2026-11-23"} for i in range(700)],
    "resting": [{"case": 1, "activity": "B"}] * 300,
    "next_changes": {f"person {i}": [i, "noon"] for i in range(450)},
    "memory": "AAAA",
}


def test_a_large_state_is_read_like_a_small_one():
    text = json.dumps(STATE).encode()
    assert len(text) > DIRECT_BYTES
    assert parse_bounded(text, "x").model_dump() == parse_state(text, "x").model_dump()
    emptied = json.dumps({name: type(value)() for name, value in STATE.items()} | {"memory": " " * 9_000}).encode()
    assert parse_bounded(emptied, "x").model_dump() == parse_state(emptied, "x").model_dump()


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"waiting": [*TASKS, {"case": 1, "activity": "A"}]}, "x: waiting[900].since is missing."),
        (
            {"waiting": [*TASKS, {**TASKS[0], "plaice": 1}]},
            "x: waiting[900].plaice is an unknown key; did you mean place?",
        ),
        ({"waiting": {}}, "x: waiting: Input should be a valid "),
        ({"waiting": [*TASKS[:250], 7]}, "x: waiting[250]: Input should be a valid "),
        ({"on_shift": [*"abc" * 100, []]}, "x: on_shift[300]: Input should be a valid string"),
        ({"next_changes": {**STATE["next_changes"], "Q": [1]}}, "x: next_changes.Q[1] is missing."),
        ({"memory": [1] * 90}, "x: memory: Input should be a valid string"),
        ({"tiem": 1}, "x: tiem is an unknown key; did you mean time?"),
        ({"time": float("nan")}, "x: time: Input should be a finite number"),
        ({"m" * 9_000: 1}, "x: mmmm"),
    ],
)
def test_the_first_mistake_of_a_large_state_is_named(change, sentence):
    with pytest.raises(UserError) as refused:
        parse_bounded(json.dumps(STATE | change).encode(), "x")
    assert str(refused.value).startswith(sentence)
    assert len(str(refused.value)) < 400


def test_a_large_text_that_is_no_state():
    for text, sentence in (
        (b"[" + b"1," * 9_000 + b"1]", "x: Input should be an object (it is a list)."),
        (json.dumps({**STATE, "time": 0}).encode()[:-1], "x: this is not JSON: EOF while parsing an object"),
        (json.dumps({"waiting": TASKS}).encode(), "x: time is missing."),
        (b'{"time":[' + b"{}," * 40_000 + b"{}]}", "x: it has 40,002 objects; expected at most 30,000, send fewer"),
        (b'{"time":[' + b"1," * 200_000 + b"1]}", "x: it has 200,000 commas; expected at most 100,000, send fewer"),
    ):
        with pytest.raises(UserError) as refused:
            parse_bounded(text, "x")
        assert str(refused.value).startswith(sentence)
