"""torchrun for the ranks of one host, whose store listens on the loopback interface alone.

torch's stores listen on all interfaces, whatever address they are given. Here the store gets a socket that is bound
already. Everything else is torchrun: its options, restarts and signals.
"""

import os
import socket
import sys
from collections.abc import Sequence
from datetime import timedelta

import torch.distributed as dist
from torch.distributed.elastic.rendezvous import (
    RendezvousHandler,
    RendezvousInfo,
    RendezvousParameters,
    RendezvousStoreInfo,
    rendezvous_handler_registry,
)
from torch.distributed.run import main as torchrun

LOOPBACK = "127.0.0.1"
BACKEND = "loopback"
_TIMEOUT = timedelta(minutes=10)


class LoopbackRendezvous(RendezvousHandler):
    """The one agent of a run on one host, which keeps the store for its ranks through all restarts."""

    def __init__(self, run: str) -> None:
        listener = socket.create_server((LOOPBACK, 0))
        self._run, self._port, self._round = run, listener.getsockname()[1], 0
        self._store = dist.TCPStore(  # type: ignore[attr-defined]
            LOOPBACK,
            self._port,
            is_master=True,
            timeout=_TIMEOUT,
            wait_for_workers=False,
            master_listen_fd=listener.detach(),
        )

    def get_backend(self) -> str:
        """Return the name of the backend."""
        return BACKEND

    @property
    def use_agent_store(self) -> bool:
        """Return that the ranks use the store of this process."""
        return True

    def next_rendezvous(self) -> RendezvousInfo:
        """Return the place of this agent, the only one, and the store."""
        self._round += 1
        store = dist.PrefixStore(f"torchrun/{self._round}", self._store)  # type: ignore[attr-defined]
        return RendezvousInfo(store, 0, 1, RendezvousStoreInfo(LOOPBACK, self._port))

    def is_closed(self) -> bool:
        """Return that a new round may begin."""
        return False

    def set_closed(self) -> None:
        """Do nothing: no other agent waits."""

    def num_nodes_waiting(self) -> int:
        """Return 0: no other host may join."""
        return 0

    def get_run_id(self) -> str:
        """Return the name that torchrun has given to the run."""
        return self._run

    def shutdown(self) -> bool:
        """Return that there is nothing to end."""
        return True


def _create(parameters: RendezvousParameters) -> RendezvousHandler:
    return LoopbackRendezvous(parameters.run_id)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run torchrun with a store on the loopback interface; ``arguments`` are torchrun's, by default the process's."""
    rendezvous_handler_registry.register(BACKEND, _create)
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")  # torch warns that the store's socket is not its own
    words = sys.argv[1:] if arguments is None else arguments
    torchrun([f"--rdzv-backend={BACKEND}", f"--local-addr={LOOPBACK}", *words])


if __name__ == "__main__":
    main()
