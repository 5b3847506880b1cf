"""System calls that Python 3.11 lacks: namespaces, mounts, process control.

Hazard: these functions must be called only in a child that was forked for the purpose. They change
the calling process permanently.
"""

from __future__ import annotations

import ctypes
import os

CLONE_NEWNS = 0x00020000
CLONE_NEWUTS = 0x04000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000

MS_BIND = 4096
MS_REC = 16384
MS_SLAVE = 1 << 19
MS_SHARED = 1 << 20

_libc = ctypes.CDLL(None, use_errno=True)


def _check(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def unshare(flags: int) -> None:
    """Leave the named namespaces for new ones."""
    _check(_libc.unshare(flags), "unshare")


def enter(pid: int, kind: str) -> None:
    """Enter the namespace `kind` (mnt, net, uts) of a process."""
    descriptor = os.open(f"/proc/{pid}/ns/{kind}", os.O_RDONLY | os.O_CLOEXEC)
    try:
        _check(_libc.setns(descriptor, 0), f"setns {kind}")
    finally:
        os.close(descriptor)


def mount(source: str, target: str, kind: str, flags: int = 0, data: str = "") -> None:
    """Mount as mount(2) does."""
    result = _libc.mount(
        source.encode(), target.encode(), kind.encode(), ctypes.c_ulong(flags), data.encode()
    )
    _check(result, f"mount {target}")


def set_hostname(name: str) -> None:
    """Set the host name in the calling process's UTS namespace."""
    data = name.encode()
    _check(_libc.sethostname(data, len(data)), "sethostname")
