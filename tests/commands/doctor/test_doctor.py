"""--mode doctor: each finding on a machine and a run that have it, and on ones that have not."""

import io
import json
import re
from dataclasses import replace

import pytest
from helpers.fake_gpus import install, of_catalogue
from oracles.toy_simulators import Shop
from rich.console import Console

pytest.importorskip("pydantic")

from helpers.setups import set_up

from longstride.cli import main
from longstride.commands.doctor import checks
from longstride.commands.doctor.checks import CHECKS
from longstride.commands.doctor.command import findings_table, remedy_lines
from longstride.commands.doctor.finding import DoctorInput, Finding
from longstride.config import Config
from longstride.errors import UserError
from longstride.hardware.detect import detect_machine
from longstride.hardware.diagnostics import Diagnostics, run_diagnostics
from longstride.hardware.planning.gpu_catalog import find_card
from longstride.hardware.planning.plan import make_plan
from longstride.simulators.source_files import recorded_source
from longstride.training.assembly.plan import plan_settings
from longstride.training.assembly.simulator_trust import STATE, remember_simulator

SHOP = ["--mode", "doctor", "--simulator", "oracles.toy_simulators:Shop"]
WELL = Diagnostics("2.9.0", "12.8", ("NVIDIA A40",), torch_threads=8, throttled=(), pinned=True, disk_free=10**12)
RECORD = {
    "gpu": {"updating": {"utilisation": 80.0, "throttled": 0.0}},
    "steps": 100_000,
    "out_of_memory": [],
    "fallbacks": [],
    "skipped_steps": 1,
    "optimizer_steps": 40,
}


@pytest.fixture
def examined(monkeypatch):
    """Return a function: the input of the checks for a card and settings, with some of its parts replaced."""

    def examine(card="A40", samples=400_000, records=(), diagnostics=WELL, **knobs):
        cards = [of_catalogue(find_card(card))] if card else []
        install(monkeypatch, cards, cuda="12.8" if card else None)
        machine = replace(detect_machine(), physical_cores=8, usable_cores=8, cores_note="", system="Linux")
        config = Config(**{"num_envs": 64, "batch_size": 8192, **knobs})
        settings = replace(plan_settings(set_up(config, Shop())), samples=samples)
        plan, error = None, ""
        try:
            plan = make_plan(machine, settings)
        except UserError as problem:
            error = str(problem)
        return DoctorInput(config, machine, samples, plan, error, 10**7, diagnostics, records)

    return examine


def diagnose(run):
    return [check(run) for check in CHECKS]


def level(check, run):
    finding = check(run)
    assert finding.measured
    assert (finding.level in ("warning", "broken")) <= bool(finding.remedy), finding
    return finding.level


def test_a_machine_on_which_all_is_well(examined):
    findings = diagnose(examined(records=[{**RECORD, "iteration": 1}]))
    assert {f.level for f in findings} == {"ok"}, findings
    assert len({f.check for f in findings}) == len(findings) == len(CHECKS)


def test_a_cpu_without_any_gpu_is_no_fault(examined):
    run = examined(card=None, diagnostics=replace(WELL, torch_cuda=None, driver_gpus=(), pinned=None, throttled=None))
    assert {f.level for f in diagnose(run)} == {"ok", "not measured"}
    assert level(checks.driver, run) == "ok"


def test_torch_without_cuda_beside_a_gpu_is_broken(examined):
    assert level(checks.torch_build, examined(diagnostics=replace(WELL, torch_cuda=None))) == "broken"
    assert level(checks.torch_build, examined(diagnostics=replace(WELL, torch_cuda=None, driver_gpus=()))) == "ok"


def test_driver_and_capability(examined, monkeypatch):
    run = examined()
    old = replace(run.machine, gpus=(), gpu_note="torch cannot use the NVIDIA A40 that the driver lists")
    assert level(checks.driver, replace(run, machine=old)) == "broken"
    install(monkeypatch, [of_catalogue(find_card("B200"))], architectures=["sm_80", "sm_90"])
    finding = checks.driver(replace(run, machine=detect_machine()))
    assert finding.level == "broken"
    assert "compute capability 10.0" in finding.measured
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    hidden = replace(run, machine=detect_machine(), diagnostics=replace(WELL, visible=""))
    assert level(checks.driver, hidden) == "warning"
    assert level(checks.driver, run) == "ok"


def test_a_gpu_that_is_not_used(examined):
    assert level(checks.device, examined(device="cpu")) == "warning"
    impossible = examined(card=None, device="cuda")
    assert level(checks.device, impossible) == "broken"
    assert {f.level for f in diagnose(impossible)} >= {"broken"}, "no check stumbles over the missing plan"


def test_formats(examined):
    assert level(checks.precision, examined(use_mixed_precision=False)) == "warning"
    assert level(checks.precision, examined("T4")) == "ok"
    assert level(checks.tf32, examined(use_tf32=False)) == "warning"
    assert level(checks.tf32, examined("T4")) == "ok", "it has none"


@pytest.mark.parametrize(("busy", "expected"), [((10, 29.8), "warning"), ((10, 30), "ok"), ((), "not measured")])
def test_utilisation_under_twenty_percent(examined, busy, expected):
    records = [{"gpu": {"updating": {"utilisation": value}}} for value in busy]
    assert level(checks.utilisation, examined(records=records)) == expected


def test_utilisation_of_a_run_without_nvml_is_not_measured(examined):
    assert level(checks.utilisation, examined(records=[{"gpu": None}])) == "not measured"


def test_clocks(examined):
    hot = replace(WELL, throttled=("heat (hardware)",))
    assert "now slowed by heat (hardware)" in checks.clocks(examined(diagnostics=hot)).measured
    assert level(checks.clocks, examined(diagnostics=hot)) == "warning"
    slow = [{"gpu": {"updating": {"throttled": share}}} for share in (0.0, 21.0)]
    assert level(checks.clocks, examined(records=slow)) == "warning"
    assert level(checks.clocks, examined(records=slow[:1])) == "ok"
    assert level(checks.clocks, examined(diagnostics=replace(WELL, throttled=None))) == "not measured"


def test_pinned_memory(examined):
    assert level(checks.pinned, examined(diagnostics=replace(WELL, pinned=False))) == "broken"


def test_a_batch_too_small_for_the_card(examined):
    """Usual are 2,048 on an A40 and 8,192 on an H100."""
    assert level(checks.batch, examined(batch_size=1024)) == "warning"
    assert checks.batch(examined(batch_size=1024)).remedy == "--batch-size 2048"
    assert level(checks.batch, examined(batch_size=2048)) == "ok"
    assert level(checks.batch, examined("H100", batch_size=4096)) == "warning"
    assert "NUM_ENVS" in checks.batch(examined(samples=2000)).remedy
    assert level(checks.batch, examined(card=None, batch_size=64)) == "ok"


@pytest.mark.parametrize(("steps", "expected"), [(499, "warning"), (500, "ok")])
def test_episodes_too_short(examined, steps, expected):
    assert level(checks.episodes, examined(samples=steps)) == expected
    assert level(checks.episodes, examined(samples=1, records=[{"steps": steps}])) == expected


@pytest.mark.parametrize("knobs", [{"simulation_threads": 9}, {"update_threads": 9}, {}])
def test_more_threads_than_cores(examined, knobs):
    diagnostics = WELL if knobs else replace(WELL, omp_threads="9")
    finding = checks.threads(examined(diagnostics=diagnostics, **knobs))
    assert (finding.level, "is 9" in finding.measured) == ("warning", True)
    assert level(checks.threads, examined(diagnostics=replace(WELL, omp_threads="8"), simulation_threads=8)) == "ok"


def test_load(examined):
    assert level(checks.load, examined(diagnostics=replace(WELL, load=8.1))) == "warning"
    assert level(checks.load, examined(diagnostics=replace(WELL, load=8.0))) == "ok"


def test_memory_that_ran_out_and_fragments(examined):
    event = {"bytes_asked": 100, "bytes_free": 50, "microbatch_after": 1024}
    full, fragments = (examined(records=[{"out_of_memory": [{**event, "bytes_free": n}]}]) for n in (50, 500))
    assert (level(checks.memory, full), level(checks.fragmentation, full)) == ("warning", "ok")
    assert (level(checks.memory, fragments), level(checks.fragmentation, fragments)) == ("warning", "warning")


def test_an_allocator_without_expandable_segments(examined, monkeypatch):
    monkeypatch.setenv("PYTORCH_CUDA_ALLOC_CONF", "max_split_size_mb:128")
    assert level(checks.fragmentation, examined()) == "warning"


def test_numbers_that_exploded(examined):
    assert level(checks.numbers, examined(records=[RECORD])) == "ok", "a skipped step is harmless"
    assert level(checks.numbers, examined(records=[{**RECORD, "fallbacks": [{}]}])) == "warning"


@pytest.mark.parametrize(("free", "expected"), [(49, "broken"), (50, "warning"), (1123, "warning"), (1124, "ok")])
def test_disk(examined, free, expected):
    """Three that are kept, the best and one on its way are 50 MB; a GiB beside them is 1,073.7 MB."""
    assert level(checks.disk, examined(diagnostics=replace(WELL, disk_free=free * 10**6))) == expected


def test_what_is_asked_of_this_machine(tmp_path, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    here = run_diagnostics(tmp_path / "not" / "yet", None)
    assert (here.disk_path, here.omp_threads, here.throttled, here.pinned) == (str(tmp_path), "3", None, None)
    assert here.disk_free > 0


def test_the_command(tmp_path, capsys, monkeypatch):
    install(monkeypatch, [], cuda=None, driver=False)
    records = "".join(json.dumps({**RECORD, "iteration": e, "gpu": None}) + "\n" for e in (1, 2))
    (tmp_path / "metrics.jsonl").write_text(records)
    assert main([*SHOP, "--run-directory", str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    assert "never ran out in 2 iterations" in printed
    assert f"{len(CHECKS)} checks: 0 broken, " in printed
    assert main([*SHOP, "--device", "cuda"]) == 1
    printed = capsys.readouterr().out
    assert "DEVICE is cuda, but" in printed
    assert "1 broken" in printed


def test_the_settings_of_a_run_are_its_own_but_for_flags(tmp_path, capsys, monkeypatch):
    """The run had one thread too many for the machine and another simulator; neither is named in the command."""
    monkeypatch.setenv(STATE, str(tmp_path / "state"))
    remember_simulator(recorded_source(SHOP[-1]) | {"simulator": SHOP[-1]})  # as the run did
    install(monkeypatch, [], cuda=None, driver=False)
    values = {"simulator": SHOP[-1], "simulation_threads": 4096, "num_envs": 3}
    (tmp_path / "config.json").write_text(json.dumps({"values": values, "sources": {}}))
    command = ["--mode", "doctor", "--run-directory", str(tmp_path)]
    assert main(command) == 0
    printed = capsys.readouterr().out
    assert f"Settings are those of the run in {tmp_path} (its config.json)." in printed.replace("\n", "")
    assert "SIMULATION_THREADS is" in printed and "4096" in printed  # in one cell, which may be broken between them
    assert f"about {3 * Shop().max_steps:,} steps an iteration" in printed
    assert main([*command, "--simulation-threads", "1"]) == 0
    printed = capsys.readouterr().out
    assert "but for SIMULATION_THREADS." in printed
    assert "SIMULATION_THREADS is" not in printed


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("{", "is damaged"),
        ('{"values": 3}', "is damaged"),
        ('{"values": {"gama": 0.9}}', "did you mean GAMMA?"),
        ('{"values": {"gamma": 9.0}}', "gamma: 9.0 should be"),
    ],
)
def test_settings_that_cannot_be_read_are_a_sentence(content, sentence, tmp_path, capsys):
    (tmp_path / "config.json").write_text(content)
    assert main(["--mode", "doctor", "--run-directory", str(tmp_path)]) == 2
    assert sentence in capsys.readouterr().err


@pytest.mark.parametrize("flags", [["--gpu", "A40"], ["--resume"], ["--checkpoint", "x"]])
def test_flags_that_mean_nothing_here_are_refused(flags, capsys):
    assert main([*SHOP, *flags]) == 2
    assert "does not go with --mode doctor" in capsys.readouterr().err


def test_the_table_loses_no_words():
    text = io.StringIO()
    Console(file=text, width=60).print(findings_table([Finding("disk", "ok", "word " * 40, "[bracketed]")]))
    assert text.getvalue().count("word") == 40
    assert "[bracketed]" in text.getvalue()


def test_on_a_narrow_terminal_remedies_are_lines_and_no_path_is_cut():
    path = "/a/long/path/" + "x" * 60
    findings = [
        Finding("disk", "ok", path, ""),
        Finding("load", "warning", "2", "wait"),
        Finding("a", "ok", "", "wait"),
    ]
    text = io.StringIO()
    Console(file=text, width=60).print(findings_table(findings, remedies=False))
    assert path in re.sub(r"[\s│]+|disk|ok", "", text.getvalue())
    assert "wait" not in text.getvalue()
    assert remedy_lines(findings) == ["load, a: wait."]


def test_a_second_gpu_is_named_where_it_would_save_time(examined):
    run = examined()
    two = replace(
        run, machine=replace(run.machine, gpus=run.machine.gpus * 2), another="A second GPU may pay: 1 of 2 s."
    )
    assert level(checks.gpus, run) == level(checks.gpus, two) == "ok"
    found = checks.gpus(replace(two, another_pays=True))
    assert found.level == "warning"
    assert found.measured == "one of 2 is used. A second GPU may pay: 1 of 2 s"
    assert found.remedy == "longstride-torchrun --nproc-per-node=2 starts a process for each"
    assert "not known" in checks.gpus(replace(two, another="")).measured
