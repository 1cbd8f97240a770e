"""What crosses the bus: the model twice an iteration, the rollout once."""

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from longstride.policies.networks import ActorCritic
from longstride.rollout.trajectory import ALIGNMENT, allocate_plain


class ModelTransfer:
    """Moves a model between the host and the update's device as one flat buffer.

    Without a GPU both are the same model: nothing moves. A GPU lays parameters out in its own way: they cross the bus
    in the host's, and the device puts them to their places. Number and seconds of transfers are since
    :meth:`start_iteration`.
    """

    def __init__(self, host: ActorCritic, device_model: ActorCritic) -> None:
        self._host, self._device = host.flat.detach(), device_model.flat.detach()
        self._moved: list[tuple[Tensor, Tensor]] = []  # a tensor as it crosses the bus, and its place
        if host.layout != device_model.layout:
            self._device = torch.zeros_like(self._host, device=self._device.device)
            for name, tensor in device_model.tensors.items():
                place = device_model.own_part(tensor.detach(), name)
                self._moved.append((host.layout.view(self._device, name), place))
        self.count, self.seconds = 0, 0.0

    def start_iteration(self) -> None:
        """Set count and seconds to zero."""
        self.count, self.seconds = 0, 0.0

    def to_device(self) -> None:
        """Copy the host's parameters to the device."""
        self._copy(self._host, self._device)
        for crossed, place in self._moved:
            place.copy_(crossed)

    def to_host(self) -> None:
        """Copy the device's parameters to the host."""
        for crossed, place in self._moved:
            crossed.copy_(place)
        self._copy(self._device, self._host)

    def _copy(self, source: Tensor, target: Tensor) -> None:
        if source.data_ptr() == target.data_ptr():
            return
        begin = time.perf_counter()
        target.copy_(source, non_blocking=True)
        synchronise(self._device.device)
        self.count += 1
        self.seconds += time.perf_counter() - begin


def synchronise(device: torch.device) -> None:
    """Wait for a GPU to finish; nothing on the CPU."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def host_allocator(pinned: bool) -> Callable[[tuple[int, ...], np.dtype[Any]], np.ndarray]:
    """Return the allocator of trajectory arrays: pinned memory where there is a GPU to read it."""

    def allocate(shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray:
        if not pinned:
            return allocate_plain(shape, dtype)
        torch_dtype = torch.from_numpy(np.empty(0, dtype)).dtype
        return torch.empty(shape, dtype=torch_dtype, pin_memory=True).numpy()

    return allocate


def upload(arrays: list[np.ndarray], device: torch.device) -> Tensor:
    """Return the concatenation of arrays on the device.

    On the CPU a single one is shared, not copied, if it begins at a multiple of :data:`ALIGNMENT` bytes. Elsewhere a
    matrix product may round otherwise, and the same run would have other bits.
    """
    parts = [torch.from_numpy(array).to(device, non_blocking=True) for array in arrays]
    if len(parts) > 1:
        return torch.cat(parts)
    misplaced = device.type == "cpu" and arrays[0].ctypes.data % ALIGNMENT
    return parts[0].clone() if misplaced else parts[0]


class DeviceBuffers:
    """Memory of the device for the columns of a rollout."""

    def __init__(self, device: torch.device) -> None:
        self._keep, self._device = False, device
        self._kept: dict[str, Tensor] = {}
        self._pinned: dict[str, np.ndarray] = {}

    def use(self, keep: bool) -> None:
        """Choose whether the next rollout takes the place of the one before, where a captured step reads it.

        Pieces are then written one after the other, into memory with room for a sixteenth more samples.
        """
        self._keep = keep
        if not keep:
            self._kept.clear()

    def upload(self, arrays: list[np.ndarray], name: str = "", width: int | None = None) -> Tensor:
        """Return the pieces of a column, joined on the device; without a name of the column its memory is not kept.

        Rows are filled up with zeros to a width.
        """
        kept, wide = self._keep and name, arrays[0].ndim > 1 and width not in (None, arrays[0].shape[1])
        if not (kept or wide):
            return upload(arrays, self._device)
        pieces = [torch.from_numpy(array) for array in arrays]
        if kept:
            return self._join(pieces, name, width)
        rows = sum(map(len, pieces))
        return _written(pieces, torch.zeros(rows, *_row(pieces[0], width), dtype=pieces[0].dtype, device=self._device))

    def host(self, name: str, rows: int) -> np.ndarray:
        """Return float32[rows] of the host for what crosses the bus: with a GPU, pinned and the same every time."""
        if self._device.type != "cuda":
            return allocate_plain((rows,), np.dtype(np.float32))
        if name not in self._pinned or len(self._pinned[name]) < rows:
            self._pinned[name] = host_allocator(pinned=True)((rows + rows // 16,), np.dtype(np.float32))
        return self._pinned[name][:rows]

    def keep(self, column: Tensor, name: str) -> Tensor:
        """Return a column that was computed on the device, in memory that is kept where that of a rollout is."""
        return self._join([column], name) if self._keep else column

    def _join(self, pieces: list[Tensor], name: str, width: int | None = None) -> Tensor:
        rows, shape = sum(map(len, pieces)), _row(pieces[0], width)
        if name in self._kept and (len(self._kept[name]) < rows or self._kept[name].shape[1:] != shape):
            del self._kept[name]  # before the larger one is made
        if name not in self._kept:
            self._kept[name] = torch.zeros(rows + rows // 16, *shape, dtype=pieces[0].dtype, device=self._device)
        return _written(pieces, self._kept[name][:rows])


def _row(piece: Tensor, width: int | None) -> tuple[int, ...]:
    """Return the shape of a row, filled up to a width."""
    return tuple(piece.shape[1:]) if width is None or piece.dim() < 2 else (width, *piece.shape[2:])


def _written(pieces: list[Tensor], target: Tensor) -> Tensor:
    """Write pieces one after the other into a tensor, and return it; what fills rows up stays as it is."""
    begin = 0
    for piece in pieces:
        rows = target[begin : begin + len(piece)]
        (rows if piece.dim() < 2 else rows[:, : piece.shape[1]]).copy_(piece, non_blocking=True)
        begin += len(piece)
    return target
