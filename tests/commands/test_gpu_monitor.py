"""scripts/gpu_monitor.py with a fake NVML, and where there is none."""

import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from helpers.fake_gpus import install, of_catalogue
from rich.console import Console

pytest.importorskip("pydantic")

from longstride.commands.gpu_monitor import main, samples, table
from longstride.hardware.nvml import nvml
from longstride.hardware.planning.gpu_catalog import find_card

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "gpu_monitor.py"


@pytest.fixture
def cards(monkeypatch):
    busy = of_catalogue(find_card("A40"), busy=87, watts=250.4, free=40 * 10**9, reasons=0x40, pids=(os.getpid(),))
    silent = of_catalogue(find_card("T4"), busy=None, watts=None, mhz=None, reasons=None)
    install(monkeypatch, [busy, silent])
    return busy, silent


def test_a_json_line_for_each_sample_with_every_gpu(cards, capsys):
    assert main(["--json", "--count", "2", "--interval", "0.01"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert len(lines) == 2
    busy, silent = lines[1]["gpus"]
    assert (busy["gpu"], busy["name"], busy["utilisation"], busy["power_watts"]) == (0, "NVIDIA A40", 87.0, 250.4)
    assert (busy["memory_bytes"], busy["total_bytes"]) == (8 * 10**9, 48 * 10**9)
    assert busy["throttled"] == ["heat (hardware)"]
    assert busy["processes"][0]["pid"] == os.getpid()
    assert "python" in busy["processes"][0]["name"] or "pytest" in busy["processes"][0]["name"]
    assert [silent[name] for name in ("utilisation", "power_watts", "sm_mhz", "throttled")] == [None] * 4


def test_a_row_for_each_gpu(cards):
    text = io.StringIO()
    Console(file=text, width=200).print(table(samples(nvml())))
    for part in ("0 NVIDIA A40", "87 %", "8.00 GB of 48.00 GB", "250 W", "1,410 MHz", "heat (hardware)", "1 Tesla T4"):
        assert part in text.getvalue(), part
    assert text.getvalue().count(" - ") == 4, "what the T4 does not say"


def test_the_live_table_ends_after_the_count(cards, capsys):
    assert main(["--count", "1"]) == 0
    assert "NVIDIA A40" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("machine", "sentence"),
    [({"driver": False}, "No NVIDIA driver"), ({"package": False}, "No NVIDIA driver"), ({}, "lists no GPU")],
)
def test_a_sentence_where_there_is_nothing_to_monitor(monkeypatch, capsys, machine, sentence):
    install(monkeypatch, [], **machine)
    assert main(["--json"]) == 2
    printed = capsys.readouterr()
    assert sentence in printed.err
    assert printed.out == ""


@pytest.mark.parametrize("flags", [["--interval", "0"], ["--count", "0"], ["--interval", "nan"], ["--cuont", "1"]])
def test_bad_flags_are_a_sentence(cards, capsys, flags):
    assert main(flags) == 2
    assert capsys.readouterr().err.startswith("error: ")


def test_the_script_itself():
    done = subprocess.run([sys.executable, SCRIPT, "--help"], capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert "--interval" in done.stdout
