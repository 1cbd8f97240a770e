"""Ranks that exchange numbers by torch.distributed: gloo on the host, NCCL between GPUs.

Gradients of ranks on the CPU of one host are added up in memory that they share.
"""

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import Any, TypeVar

import numpy as np
import psutil
import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.rendezvous import rendezvous

from longstride.errors import RankLostError, UserError, first_line
from longstride.learning.advantages import Total
from longstride.learning.distributed.launch import Launch
from longstride.learning.distributed.shared_sums import SharedSums, can_share_memory, make_file, make_way
from longstride.learning.distributed.watch import Watch, cause, note_cause, said_by_first
from longstride.learning.oom_recovery import is_out_of_memory

T = TypeVar("T")

_FOREVER = timedelta(days=30)
"""Limit of an exchange. A rank may simulate or evaluate for hours while others wait; whether it lives is watched."""

_JOINING = timedelta(minutes=10)
"""Limit for all processes to start: the slowest may read an event log first."""

_HERE = "here/{}"
_EXIT = 2


class ProcessGroup:
    """The ranks of a run whose processes torchrun has started: the ``Ranks`` of ``ranks.py``."""

    def __init__(self, launch: Launch) -> None:
        if dist.is_initialized():
            raise UserError(
                "This program uses torch.distributed itself, or its last run of several processes ended with "
                "an error; start it again."
            )
        self.rank, self.size = launch.rank, launch.size
        self.host_rank, self.host_size = launch.host_rank, launch.host_size
        self._advice: Callable[[], str] = lambda: "Nothing was learned yet; start again."
        if launch.host_size == launch.size:
            stay_on_loopback()
        try:
            store, *_ = next(rendezvous("env://", timeout=_JOINING))
            # Torchrun may keep its store when it starts the processes again, with the addresses of those that died; and
            # a program may train twice.
            again = store.add(f"longstride/{launch.restarts}/joined/{self.rank}", 1)
            self._store = dist.PrefixStore(f"longstride/{launch.restarts}/{again}", store)  # type: ignore[attr-defined]
            self._store.set(_HERE.format(self.rank), "")
            self._store.wait([_HERE.format(rank) for rank in range(self.size)], _JOINING)
            self._watch = Watch(self._store, self.rank, self.size, self._end_at_once)
            self._watch.start()
            dist.init_process_group("gloo", store=self._store, rank=self.rank, world_size=self.size, timeout=_FOREVER)
        except (RuntimeError, ValueError) as error:
            found = f"The {self.size} processes of this run do not find each other ({first_line(error)})."
            raise UserError(found) from None
        self._host: Any = dist.group.WORLD
        self._device_group = self._host
        self._shares_memory = all(self.gather(launch.host_size == launch.size and can_share_memory()))
        self._processes = self.gather(os.getpid())
        self._sums: SharedSums | None = None

    @property
    def sums(self) -> Total | None:
        """The method :meth:`total`."""
        return self.total

    def total(self, numbers: np.ndarray) -> np.ndarray:
        """Return the sum of float64[n] over all ranks."""
        added = torch.from_numpy(np.array(numbers, np.float64))
        with self._together():
            dist.all_reduce(added, group=self._host)
        return added.numpy()

    def gather(self, part: T) -> list[T]:
        """Return the parts of all ranks."""
        parts: list[Any] = [None] * self.size
        with self._together():
            dist.all_gather_object(parts, part, group=self._host)
        return parts

    def gather_to_first(self, part: T) -> list[T]:
        """Return the parts of all ranks on the first one."""
        parts: list[Any] | None = [None] * self.size if self.rank == 0 else None
        with self._together():
            dist.gather_object(part, parts, dst=0, group=self._host)
        return [part] if parts is None else parts

    def from_first(self, make: Callable[[], T]) -> T:
        """Return what a function returns on the first rank."""
        made: list[Any] = [make() if self.rank == 0 else None]
        with self._together():
            dist.broadcast_object_list(made, src=0, group=self._host)
        result: T = made[0]
        return result

    def add(self, parts: Sequence[Tensor]) -> None:
        """Replace tensors by their sums over all ranks."""
        with self._together():
            if (sums := self._shared_sums(parts)) is not None:
                sums.add([part.numpy() for part in parts], self._look_at_others)
                return
            flat = torch.cat(list(parts))
            work = dist.all_reduce(flat, group=self._device_group, async_op=True)
            assert work is not None  # as asked for by ``async_op``
            # Ranks meet for a moment, once a minibatch. A core that sleeps meanwhile can take milliseconds to wake up.
            while not flat.is_cuda and not work.is_completed():
                make_way()
            work.wait()
            for part, added in zip(parts, torch.split(flat, [*map(len, parts)]), strict=True):
                part.copy_(added)

    def _shared_sums(self, parts: Sequence[Tensor]) -> SharedSums | None:
        """Return what adds up such tensors in shared memory; None where they are on a GPU or there is none."""
        numbers = sum(map(len, parts))
        if self._shares_memory and (self._sums is None or self._sums.numbers < numbers):
            self._sums = None if parts[0].is_cuda else self._share_memory(numbers)
            self._shares_memory = self._sums is not None
        return self._sums

    def _share_memory(self, numbers: int) -> SharedSums | None:
        """Map a new file of the first rank on all; None where one of them cannot."""
        path, sums = self.from_first(lambda: make_file(self.size, numbers)), None
        if path is not None:
            with suppress(OSError):
                sums = SharedSums(path, self.rank, self.size, numbers)
        all_can = all(self.gather(sums is not None))
        if path is not None and self.rank == 0:
            path.unlink()
        return sums if all_can else None

    def _look_at_others(self) -> None:
        """Raise where another process has ended."""
        if any(map(_has_ended, self._processes)):
            raise RuntimeError("a process of this host has ended")

    def use_device(self, kind: str) -> None:
        """Let :meth:`add` take tensors of a GPU, by NCCL."""
        if kind == "cuda":
            with self._together():
                self._device_group = dist.new_group(backend="nccl", timeout=_FOREVER)

    def advise(self, advice: Callable[[], str]) -> None:
        """Set what returns a sentence for a rank that is left alone."""
        self._advice = advice

    @contextmanager
    def _together(self) -> Iterator[None]:
        """Turn what torch raises where another process has ended into a sentence; other errors pass."""
        try:
            yield
        except RuntimeError as error:
            if is_out_of_memory(error) or (torch.cuda.is_available() and torch.cuda.is_current_stream_capturing()):
                raise
            ended = f"another rank has ended or cannot be reached ({first_line(error)})"
            raise RankLostError(self._sentence(cause(self._store) or ended)) from error

    def _sentence(self, reason: str) -> str:
        return f"This process (rank {self.rank} of {self.size}) cannot go on, because {reason}. {self._advice()}"

    def _end_at_once(self, reason: str) -> None:
        """End this process: its main thread may wait for ever."""
        if self.rank == 0 or not said_by_first(self._store):
            print(f"error: {self._sentence(cause(self._store) or reason)}", file=sys.stderr, flush=True)
        sys.stdout.flush()
        os._exit(_EXIT)

    def note(self, error: UserError) -> bool:
        """Note the error with which this rank ends; return whether it should print it, as no other one does."""
        if isinstance(error, RankLostError):
            return self.rank == 0 or not said_by_first(self._store)
        return note_cause(self._store, self.rank, str(error))

    def close(self) -> None:
        """Leave the others, after the last exchange of all."""
        with self._together():
            dist.barrier(group=self._host)
        self._watch.stop()
        dist.destroy_process_group()

    def abandon(self) -> None:
        """Leave the others without waiting for them, so that they notice."""
        self._watch.stop()


def stay_on_loopback() -> None:
    """Let gloo and NCCL open their ports on the loopback interface, where the user names no other one.

    Gloo takes the address of the host's name otherwise, which other machines may reach.
    """
    interfaces = [name for name, addresses in psutil.net_if_addrs().items() if any(map(_is_loopback, addresses))]
    for name in ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME"):
        if interfaces:
            os.environ.setdefault(name, interfaces[0])


def _is_loopback(address: Any) -> bool:
    return bool(address.address == "127.0.0.1")


def _has_ended(number: int) -> bool:
    """Return whether the process of a number is gone, or would be if its parent had looked."""
    try:
        return bool(psutil.Process(number).status() == psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return True
