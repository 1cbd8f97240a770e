"""Hosts that join a Ray cluster while a run plays: they play, or a sentence says why they do not. Without Ray."""

from types import SimpleNamespace

import pytest

pytest.importorskip("pydantic")

from longstride.rollout.hosts import ray_pool
from longstride.rollout.hosts.host_compatibility import code_here
from longstride.rollout.hosts.pool import Host
from longstride.rollout.hosts.ray_cluster import Place
from longstride.rollout.hosts.ray_pool import RayPool


@pytest.mark.parametrize(
    ("changes", "problem", "plays", "line"),
    [
        ({}, "", True, None),
        ({"processor": "Z80"}, "", True, "The processor of host b is Z80, "),
        ({"NumPy": "1.0"}, "", False, "Host b has joined and cannot play: Host b has NumPy 1.0, "),
        ({}, "its file differs.", False, "Host b has joined and cannot play: its file differs."),
    ],
)
def test_a_host_that_joins_later(monkeypatch, changes, problem, plays, line):
    monkeypatch.setattr(RayPool, "_get", lambda self, actor, answer: answer)
    handle = SimpleNamespace(
        code=SimpleNamespace(remote=lambda: code_here() | changes),
        process=SimpleNamespace(remote=lambda: "sign of life"),
    )
    pool, place, host = RayPool("auto", 1), Place("b", "b", 2), Host(1, "b", 2)
    pool._cluster = SimpleNamespace(
        places=lambda *_: [place], ray=SimpleNamespace(wait=lambda receipts, timeout: (receipts, []))
    )
    pool._actors[place] = ray_pool._Actor(host, handle, problem)
    assert pool.hosts() == ([host] if plays else [])
    assert pool.hosts() == ([host] if plays else [])  # it is asked once
    lines = pool.take_lines()
    assert [text.startswith(line) for text in lines] == ([True] if line else [])
    assert pool.take_lines() == []
