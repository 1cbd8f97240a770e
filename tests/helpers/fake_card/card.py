"""A CUDA card that is not there: tensors that say ``cuda:0``, and whose numbers a CPU computes.

A torch without CUDA runs the whole of an update on them, with the choices that torch makes for CUDA (autocast, gradient
scaler, fused optimiser), and every operation can be counted and checked. Host memory that would be pinned is known by
its address. What it does not have: work on streams, asynchronous copies, lifetimes of memory, captures, kernels.
:func:`load_guard` comes before the first import of torch in a process.
"""

import ctypes
import importlib.util
import subprocess
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

GUARD = Path(__file__).with_name("guard.cpp")


def _torch_directory() -> Path:
    spec = importlib.util.find_spec("torch")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent


def build_guard(library: Path, compiler: str) -> None:
    """Compile guard.cpp against the installed torch; some seconds."""
    root = _torch_directory()
    includes = [f"-I{root / 'include'}", f"-I{root / 'include/torch/csrc/api/include'}"]
    flags = ["-shared", "-fPIC", "-O0", "-w", "-std=c++20", f"-L{root / 'lib'}"]
    command = [compiler, *flags, str(GUARD), *includes, "-lc10", "-ltorch_cpu", "-o", str(library)]
    subprocess.run(command, check=True, capture_output=True, text=True)


class NoStream:
    """A stream of work that is done at once.

    Attributes:
        waited: streams that it has waited for.
    """

    present: "NoStream"

    def __init__(self, device=None):
        self.waited = []

    def wait_stream(self, stream):
        """Write it down."""
        self.waited.append(stream)

    @classmethod
    @contextmanager
    def on(cls, stream):
        """Make a stream the present one."""
        before, NoStream.present = NoStream.present, stream
        try:
            yield
        finally:
            NoStream.present = before


NoStream.present = NoStream()


class NoEvent:
    """An event of a card that has done everything at once.

    Attributes:
        stream: stream on which it was recorded last.
    """

    stream = None

    def record(self):
        """Write down the stream."""
        self.stream = NoStream.present

    def synchronize(self):
        """Do nothing."""


def load_guard(library: Path) -> None:
    """Load the compiled guard; before the first import of torch, which asks once whether there is a card."""
    for name in ("libc10.so", "libtorch_cpu.so"):
        ctypes.CDLL(str(_torch_directory() / "lib" / name), ctypes.RTLD_GLOBAL)
    ctypes.CDLL(str(library))
    import torch

    torch.cuda._lazy_init = lambda: None
    torch.cuda.synchronize = lambda device=None: None
    torch.cuda.empty_cache = lambda: None
    torch.cuda.Stream, torch.cuda.Event = NoStream, NoEvent
    torch.cuda.current_stream = lambda device=None: NoStream.present
    torch.cuda.stream = NoStream.on
    torch.cuda.get_rng_state = lambda device=None: None
    torch.cuda.set_rng_state = lambda state, device=None: None
    torch.cuda.is_bf16_supported = lambda including_emulation=True: True
    torch.cuda.amp.common.amp_definitely_not_available = lambda: False
    torch._C._set_only_lift_cpu_tensors(True)  # torch.tensor(x, device="cuda") as a copy that a mode sees


@dataclass
class Traffic:
    """What the host asked of the card since the last look.

    Attributes:
        launches: operations with work on the card, by name.
        uploads: number of copies to the card, and ``upload_bytes`` their bytes.
        uploads_before_first_read: those before the host waited for the first time.
        reads: operations for which the host waits: copies and single numbers from the card.
        pageable_bytes: bytes of copies of either direction whose part of the host's memory is not pinned, or not in one
            piece, so that torch puts them together in memory that is not.
        mixed: operations on tensors of both, other than copies.
        products: number format and inner dimension of the forward pass's products of matrices.
    """

    launches: Counter[str] = field(default_factory=Counter)
    uploads: int = 0
    upload_bytes: int = 0
    uploads_before_first_read: int = 0
    reads: list[str] = field(default_factory=list)
    mixed: list[str] = field(default_factory=list)
    pageable_bytes: int = 0
    products: list[tuple[str, int]] = field(default_factory=list)


def fake_card():
    """Return the class of the card; torch is imported here."""
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch.utils._pytree import tree_leaves, tree_map

    card, host = torch.device("cuda", 0), torch.device("cpu")
    allocations = {"empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided"}
    views = {"_unsafe_view", "_reshape_alias", "lift_fresh", "set_", "resize_"}

    class CardTensor(torch.Tensor):
        """A tensor whose numbers are those of ``numbers``, a CPU tensor."""

        @staticmethod
        def __new__(cls, numbers):
            layout = {"strides": numbers.stride(), "storage_offset": numbers.storage_offset()}
            return torch.Tensor._make_wrapper_subclass(cls, numbers.shape, dtype=numbers.dtype, device=card, **layout)

        def __init__(self, numbers):
            self.numbers = numbers

        def data_ptr(self):
            return self.numbers.data_ptr()

        def untyped_storage(self):
            return self.numbers.untyped_storage()

        @classmethod
        def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
            raise AssertionError(f"{function} where no FakeCard is active")

        __torch_function__ = torch._C._disabled_torch_function_impl

    class FakeCard(TorchDispatchMode):
        """While it is active, ``device="cuda"`` means the card."""

        def __init__(self):
            super().__init__()
            self.traffic = Traffic()
            self._pinned = []  # tensors, which must stay: other memory could take their addresses

        def look(self) -> Traffic:
            """Return the traffic since the last look."""
            traffic, self.traffic = self.traffic, Traffic()
            return traffic

        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            kwargs = dict(kwargs or {})
            is_pinned = kwargs.pop("pin_memory", None)
            tensors = [x for x in tree_leaves((args, kwargs)) if isinstance(x, torch.Tensor)]
            from_card = any(isinstance(x, CardTensor) for x in tensors)
            device = kwargs.get("device")
            if device is not None:
                kwargs["device"] = host
            name = function.overloadpacket.__name__
            to_card = torch.device(device).type == "cuda" if device is not None else from_card
            to_card = to_card and name != "_local_scalar_dense"
            result = function(*tree_map(_numbers, args), **tree_map(_numbers, kwargs))
            self._note(name, function, tensors, from_card, to_card, result)
            if not to_card:
                if is_pinned:
                    self._pinned.append(result)
                return result
            known = {id(x.numbers): x for x in tensors if isinstance(x, CardTensor)}
            return tree_map(lambda x: known[id(x)] if id(x) in known else _on_card(x), result)

        def _note(self, name, function, tensors, from_card, to_card, result):
            on_host = [x for x in tensors if not isinstance(x, CardTensor) and x.dim() > 0]
            if name == "copy_" and len(tensors) > 1:  # target, source
                to_card, from_card = (isinstance(x, CardTensor) for x in tensors[:2])
            if name in ("copy_", "_to_copy") and from_card != to_card:
                of_the_host = on_host if to_card or name == "copy_" else [result]
                self.traffic.pageable_bytes += sum(map(self._pageable_bytes, of_the_host))
            if from_card and not to_card:
                self.traffic.reads.append(name)
            elif name in ("copy_", "_to_copy") and to_card and not from_card:
                self.traffic.uploads += 1
                self.traffic.uploads_before_first_read += not self.traffic.reads
                self.traffic.upload_bytes += sum(x.numel() * x.element_size() for x in on_host)
            elif to_card and not (function.is_view or name in allocations | views):
                self.traffic.launches[name] += 1
                if name in ("addmm", "_addmm_activation"):  # bias, inputs, weights
                    self.traffic.products.append((str(tensors[1].dtype), tensors[1].shape[1]))
                if on_host:
                    self.traffic.mixed.append(name)

        def _pageable_bytes(self, tensor):
            size, begin = tensor.numel() * tensor.element_size(), tensor.data_ptr()
            blocks = ((p.data_ptr(), p.numel() * p.element_size()) for p in self._pinned)
            inside = any(at <= begin and begin + size <= at + room for at, room in blocks)
            return 0 if inside and tensor.is_contiguous() else size

    def _numbers(x):
        return x.numbers if isinstance(x, CardTensor) else x

    def _on_card(x):
        return CardTensor(x) if isinstance(x, torch.Tensor) else x

    return FakeCard
