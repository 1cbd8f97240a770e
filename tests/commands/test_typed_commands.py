"""A real terminal of 80 x 24: what a run prints there, and its commands typed into a shell as they stand."""

import os
import re
import shlex
import sys
import time
from pathlib import Path

import pytest
from oracles import toy_simulators

pytest.importorskip("pydantic")
pytest.importorskip("pyte")
pytest.importorskip("pty", reason="needs a terminal of a Unix system")

import pty

import pyte

from longstride.cli import main
from longstride.errors import this_command

ROOT = Path(__file__).resolve().parents[2]
COLUMNS, ROWS = 80, 24
SMALL = [
    *("--simulator", f"{toy_simulators.__file__}:Bandit", "--actor-hidden-size", "16", "--critic-hidden-size", "16"),
    *("--num-hidden-layers", "1", "--batch-size", "64", "--device", "cpu", "--num-envs", "1"),
]


class Terminal:
    """A shell in a terminal."""

    def __init__(self, folder):
        self.screen, self.written = pyte.Screen(COLUMNS, ROWS), ""
        self._stream = pyte.ByteStream(self.screen)
        pid, self._file = pty.fork()
        if pid == 0:
            os.chdir(folder)
            path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
            more = {"PATH": path, "TERM": "xterm-256color", "PS1": "", "PS2": "", "ENV": ""}
            kept = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES", "NO_COLOR")}
            os.execvpe("sh", ["sh", "-i"], {**kept, **more})
        self._pid = pid
        import termios

        termios.tcsetwinsize(self._file, (ROWS, COLUMNS))

    def type(self, *lines):
        """Type lines, and return the exit code once they are done."""
        for line in [*lines, "echo code=$?="]:
            os.write(self._file, f"{line}\r".encode())
        begin, end = len(self.written), time.monotonic() + 120
        while not (code := re.search(r"code=(\d+)=", self.written[begin:])):
            assert time.monotonic() < end, self.written
            data = os.read(self._file, 65536)
            self._stream.feed(data)
            self.written += data.decode(errors="replace")
        return int(code[1])

    def rows(self):
        return [row.rstrip() for row in self.screen.display]

    def close(self):
        os.close(self._file)
        os.waitpid(self._pid, 0)


@pytest.fixture
def terminal(tmp_path):
    opened = Terminal(tmp_path)
    yield opened
    opened.close()


@pytest.mark.slow
def test_a_run_fits_on_the_screen_and_its_command_works_as_it_stands(terminal, tmp_path):
    name = "a run whose command takes more than a line"
    train = ["python", str(ROOT / "scripts" / "train.py"), "--mode", "train", *SMALL, "--run-directory", name]
    (tmp_path / "train.sh").write_text(shlex.join([*train, "--training-episodes", "3"]))
    assert terminal.type("sh train.sh") == 0
    rows = terminal.rows()
    assert "Policy update complete - Total time: " in " ".join(rows), "in the display"
    assert len(re.findall(r"^return +\d+\.\d\d  [▁▂▃▄▅▆▇█]{3}  ", "\n".join(rows), re.MULTILINE)) == 1
    begin = next(i for i, row in enumerate(rows) if row.startswith("Compare the policy")) + 1
    command = [rows[begin]]
    while command[-1].endswith("\\"):
        command.append(rows[begin + len(command)])
    assert len(command) > 1, "it is longer than a line"
    assert terminal.type(f"{command[0]}", *command[1:]) == 0
    assert (tmp_path / name / "evaluation.json").exists()
    printed = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", terminal.written)
    wide = [line for line in re.split(r"[\r\n]+", printed) if len(line) > COLUMNS]
    assert [line for line in wide if " " in line.strip()] == [], "a terminal would break a word"


def command_after(text, beginning):
    """Return the words of the one command that a text has after some words."""
    (command,) = re.findall(rf"{beginning}(.*)$", text, re.MULTILINE)
    assert command.startswith(f"{this_command()} --mode ")
    return shlex.split(command.removeprefix(this_command()))


def test_commands_name_folders_with_spaces(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    where = ["--run-directory", "it's a run"]
    assert main(["--mode", "plan", *SMALL, *where, "--training-episodes", "1"]) == 0
    words = command_after(capsys.readouterr().out, "Run it: ")
    assert main(words) == 0
    words = command_after(capsys.readouterr().out, "heuristics: ")
    assert words == ["--mode", "evaluate", "--checkpoint", "it's a run"]
    assert main([*words, "--evaluation-episodes", "2"]) == 0
    assert Path("it's a run/evaluation.json").exists()
