"""The check for slower kernels: what it says of made-up ratios and clocks; nothing here is timed."""

import json

import pytest

from benchmarks import check


def test_only_what_is_slower_than_the_tolerance_is_named():
    baseline = {"loop": 100.0, "step": 2.0, "gone": 1.0}
    found = {"loop": 121.0, "step": 2.39, "new": 7.0}
    assert check.slower(found, baseline) == ["loop"]
    lines = check.sentences(found, baseline, "z80")
    assert lines[0].startswith("loop takes 21 % longer than its baseline")
    assert lines[1].startswith("No baseline on z80 for: new;")
    assert check.sentences({"step": 1.0}, baseline, "z80") == ["Nothing became slower by more than 20 %."]
    assert [line.split() for line in check.table({"step": 3.0, "new": 7.0}, baseline)[1:]] == [
        ["step", "3", "2", "+50.0%"],
        ["new", "7"],
    ]


def test_ratios_are_medians_of_turns_on_a_machine_that_slows_down(monkeypatch):
    clock = [0.0]
    pace = iter(1.0 + k / 10 for k in range(1000))

    def spend(seconds):
        clock[0] += seconds * next(pace)

    monkeypatch.setattr(check, "_reference", lambda *_: spend(0.025))
    monkeypatch.setattr(check.time, "process_time", lambda: clock[0])
    monkeypatch.setattr(check, "_SLICE", 0.0)
    work = {"one": (lambda: spend(0.05), 1), "two": (lambda: spend(0.05), 10)}
    found = check.measure(work, 7)
    assert found == pytest.approx({"one": 2000.0, "two": 200.0}), "the reference before and after is as slow on average"


@pytest.mark.parametrize(("again", "code"), [(1.1, 0), (1.5, 1)])
def test_what_is_slower_is_measured_once_more(again, code, monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(check, "BASELINES", tmp_path / "check.json")
    monkeypatch.setattr(check, "kernels", lambda: {"loop": None, "step": None})
    monkeypatch.setattr(check.llvmlite.binding, "get_host_cpu_name", lambda: "z80")
    results = iter([{"loop": 1.0, "step": 1.0}, {"loop": 1.6, "step": 1.1}, {"loop": again}])
    monkeypatch.setattr(check, "measure", lambda work, repeats: next(results))
    monkeypatch.setattr("sys.argv", ["check.py", "--save"])
    (tmp_path / "check.json").write_text('{"other": {"loop": 3.0}}')
    assert check.main() == 0
    assert json.loads(check.BASELINES.read_text()) == {"other": {"loop": 3.0}, "z80": {"loop": 1.0, "step": 1.0}}
    monkeypatch.setattr("sys.argv", ["check.py"])
    assert check.main() == code
    assert ("loop takes 50 % longer" in capsys.readouterr().out) == bool(code)
