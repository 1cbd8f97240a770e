"""Names in a log that are code in some language stay names: in training, report, export and recommendation."""

import csv
import html
import json
import re
import shutil
import subprocess
from pathlib import Path

import html5lib
import pytest
from markdown_it import MarkdownIt

pytest.importorskip("pydantic")

from longstride.cli import main

pytest.importorskip("matplotlib")
HYPERPARAMETERS = Path(__file__).resolve().parents[2] / "hyperparameters.py"
ACTIVITIES = [
    "x*\\ ; __attribute__((constructor)) static void run(void) { extern int system(const char *); "
    'system("touch INJECTED"); } \\*',
    "..*\\ ..??/",
    "<script>alert(1)</script><img src=x onerror=alert(2)>",
    "pay $100 to $200 {{7*7}} | `a`",
    "\x1b]0;title\x07 \x9b31m red [red]x[/red] [/] :smile:",
    "=1+1",
    "_underscored $\\frac$",
]
PEOPLE = ["=HYPERLINK(1)", "Ana \x1b[2J", "</pre><b>Bo</b>", "_c $x$"]
SMALL = ["--training-episodes", "1", "--num-envs", "1", "--actor-hidden-size", "8", "--batch-size", "64"]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run on a log with such names, in a folder whose name is a formula."""
    folder = tmp_path_factory.mktemp("names")
    quoted = ['"' + name.replace('"', '""') + '"' for name in ACTIVITIES]
    rows = [
        f'c{i},{activity},"{PEOPLE[(i + k) % 4]}",2024-01-0{2 + i % 5}T{8 + k:02}:{i % 6}0,'
        f"2024-01-0{2 + i % 5}T{8 + k:02}:{i % 6}9"
        for i in range(30)
        for k, activity in enumerate(quoted)
    ]
    log = folder / "log.csv"
    log.write_text(
        "\n".join(["case,activity,resource,start,end", *rows, '"=1",a,b,"\x1b[31mnever",x']), encoding="utf-8"
    )
    directory = folder / "a$\\frac$b"
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("LONGSTRIDE_REPORT", "on")
        flags = ["--event-log", str(log), "--skip-bad-rows", "--run-directory", str(directory), *SMALL]
        assert main(["--mode", "train", *flags], HYPERPARAMETERS) == 0
        assert main(["--mode", "report", "--run-directory", str(directory)]) == 0
    return directory


def test_nothing_ran_and_no_file_holds_a_control_character(run, monkeypatch):
    monkeypatch.chdir(run.parent)
    assert main(["--mode", "export", "--checkpoint", str(run), "--format", "c", "safetensors"]) == 0
    assert not [*run.parent.rglob("INJECTED")]
    texts = [path for path in run.rglob("*") if path.suffix in (".html", ".json", ".jsonl", ".md", ".csv", ".c", ".h")]
    assert len(texts) >= 9
    for path in texts:
        assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f]", path.read_text(encoding="utf-8")), path
    assert set(ACTIVITIES) <= set(json.loads((run / "scenario.json").read_text())["activities"])


@pytest.mark.skipif(not shutil.which("cc"), reason="there is no C compiler")
def test_the_exported_names_are_the_names(run, tmp_path):
    assert main(["--mode", "export", "--checkpoint", str(run), "--format", "c", "--output", str(tmp_path / "c")]) == 0
    (tmp_path / "main.c").write_text(
        '#include <stdio.h>\n#include "policy.h"\nint main(void) { int i; for (i = 0; i < POLICY_OUTPUT_SIZE; i++) '
        "puts(policy_output_names[i]); return 0; }\n"
    )
    sources = [tmp_path / "main.c", tmp_path / "c" / "policy.c"]
    subprocess.run(["cc", "-I", tmp_path / "c", *sources, "-o", tmp_path / "main"], check=True)
    printed = subprocess.run([tmp_path / "main"], cwd=tmp_path, capture_output=True, check=True).stdout.decode()
    assert all(name in printed for name in ACTIVITIES)
    assert not [*tmp_path.rglob("INJECTED")]


def test_pages_have_no_element_of_a_name(run):
    page = html5lib.parse((run / "report.html").read_text(encoding="utf-8"), namespaceHTMLElements=False)
    assert not [each.tag for each in page.iter() if each.tag in ("script", "img", "b") and (each.text or "") == "Bo"]
    assert not page.findall(".//script") and not page.findall(".//img")
    shown = "".join(page.itertext())
    assert "pay $100 to $200 {{7*7}} | `a`" in shown and "_underscored $\\frac$" in shown


def test_the_comparison_with_the_log_is_a_whole_table(run):
    rendered = MarkdownIt("commonmark", {"html": True}).enable("table").render((run / "fidelity.md").read_text())
    assert set(re.findall(r"<(\w+)", rendered)) <= {"table", "thead", "tbody", "tr", "th", "td", "ul", "li"}
    rows = re.findall(r"<tr>(.*?)</tr>", rendered, re.DOTALL)
    assert all(len(re.findall(r"<t[dh]", row)) == 3 for row in rows)
    assert "pay $100 to $200 {{7*7}} | `a`" in html.unescape(rendered)


def test_bad_rows_hold_no_formula(run):
    with (run / "refused_rows.csv").open(encoding="utf-8", newline="") as file:
        _header, row = csv.reader(file)
    assert row[2] == "'=1 | a | b | \\x1b[31mnever | x"


def test_tables_and_sentences_send_no_control_character(run, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    assert main(["--mode", "recommend", "--checkpoint", str(run), "--state", str(run.parent / "log.csv")]) in (0, 2)
    (run.parent / "odd.csv").write_text("\x1b]0;owned\x07,b,c\n1,2,3\n", encoding="utf-8")
    assert main(["--mode", "recommend", "--checkpoint", str(run), "--state", str(run.parent / "odd.csv")]) == 2
    captured = capsys.readouterr()
    printed = captured.out + captured.err
    assert "\\x1b]0;owned" in printed
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f]", printed)
