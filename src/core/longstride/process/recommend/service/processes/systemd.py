"""The protocol between systemd and a service: a listening socket, and the state of the service."""

import os
import socket
import time

_FIRST_DESCRIPTOR = 3


def inherited_listener() -> socket.socket | None:
    """Return the listening socket that systemd (or another parent) has opened for this process, or None.

    The protocol is ``sd_listen_fds``: the variables LISTEN_PID and LISTEN_FDS, and descriptors from 3 on.
    """
    if os.environ.get("LISTEN_PID") != str(os.getpid()) or os.environ.get("LISTEN_FDS") in (None, "0"):
        return None
    listener = socket.socket(fileno=_FIRST_DESCRIPTOR)
    listener.set_inheritable(False)
    return listener


def notify(*lines: str) -> None:
    """Send systemd the state of the service, such as ``READY=1``; without NOTIFY_SOCKET do nothing."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address:
        return
    address = "\0" + address[1:] if address.startswith("@") else address
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
            channel.sendto("\n".join(lines).encode(), address)
    except OSError:
        return  # the service works without systemd


def notify_reloading() -> None:
    """Tell systemd that the service reloads its configuration; ``READY=1`` ends this state."""
    notify("RELOADING=1", f"MONOTONIC_USEC={time.monotonic_ns() // 1000}")
