"""The search for a team under a rule, whose compiled loop other tests share: against all teams, and as a mode."""

import json
import shlex

import numpy as np
import pytest

pytest.importorskip("optuna")

from process.staff.uncompiled_teams import TWO_DAYS, desk, small_space

from longstride.cli import main
from longstride.errors import UserError
from longstride.process.front.points import front_of
from longstride.process.scenario_file import scenario_content
from longstride.process.staff.search import TeamSearch
from longstride.process.staff.team_player import Acting, TeamPlayer


def means(player, team):
    records = player.play(team, TWO_DAYS)
    return tuple(float(np.mean([r[m] for r in records])) for m in ("cost_per_case", "mean_cycle_time"))


def test_few_teams_are_all_played_and_the_front_is_theirs(tmp_path):
    space = small_space()
    player = TeamPlayer(space, Acting(name="fifo"), 1)
    search = TeamSearch(tmp_path / "journal", space, 100, seed=0)
    assert search.run(lambda team: means(player, team), lambda: True)
    every, impossible = {}, 0
    for team in space.all():
        try:
            every[team] = means(player, team)
        except UserError:
            impossible += 1
    assert impossible > 0
    assert search.progress.impossible == impossible
    assert {p.team: p.values for p in search.progress.played.values()} == every
    on_front = {team for team, is_on in zip(every, front_of(list(every.values())), strict=True) if is_on}
    assert {p.team for p in search.progress.front()} == on_front


@pytest.mark.parametrize("changes", [{}, {"at_once": {"clerk 1": 2, "Eve's <b> expert": 3}}])
def test_the_mode_compares_teams_and_says_how_to_play_them(changes, tmp_path, capsys):
    file, folder = tmp_path / "desk.json", tmp_path / "teams"
    file.write_text(json.dumps(scenario_content(desk(**changes))))
    flags = ["staff", str(file), "--policy", "fifo", "--no-retraining", "--more", "1", "--fewer", "1"]
    flags += ["--moves", "people", "--search-episodes", "1", "--evaluation-episodes", "3", "--simulation-threads", "1"]
    assert main([*flags, "--run-directory", str(folder)]) == 0
    out = capsys.readouterr().out
    content = json.loads((folder / "staff.json").read_text())
    assert content["metrics"] == ["cost_per_case", "share_beyond_target"]
    assert content["points"][0]["name"] == content["reference"] == "fifo: as it is"
    assert any("keep 90 % within 6 h" in said or "No team is named" in said for said in content["sentences"])
    command = next(line.strip() for line in out.splitlines() if "--mode whatif" in line)
    assert main([*flags, "--run-directory", str(folder)]) == 0
    again = json.loads((folder / "staff.json").read_text())
    assert again["points"] == content["points"], "the same command continues, and finds nothing to do"
    assert "of them played before" in capsys.readouterr().out
    words = shlex.split(command)
    words = words[words.index("--mode") :]
    assert main([*words, "--evaluation-episodes", "2", "--run-directory", str(tmp_path / "whatif")]) == 0
    assert "<b>" not in (folder / "staff.html").read_text().split("<body")[1]
