"""The first process of a cluster: all other processes are its descendants and end with it.

It runs in its own process-ID namespace. If it is killed, the kernel kills every process of the
cluster, containers included. The kernel then removes mounts, network namespaces, links and routes
as well. The supervisor holds one process per named space (the hub, each node). It starts and stops
programs in these spaces on request, and collects the exit codes of orphans.

Runs as a script. The protocol is one JSON line per connection on a Unix socket in the cluster's
folder.

Hazard: the supervisor must survive every program's fault, and must not wait without a limit. All
processes of the cluster end with it.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import socket
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

if __name__ == "__main__":  # run as a script from the repository of the caller
    sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from tools.testbed.machine import cgroups, kernel

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
SOCKET = "supervisor.sock"
RECORD = "supervisor.json"

# Folders of the node replace the fixed places that its programs write to.
PRIVATE = ("/var/lib", "/var/log")

# Without a limit on refusals, each query to the outside is refused at once. With the
# kernel's default of one a second, all other queries wait for their timeout.
SETTINGS = {"ip_forward": 1, "conf/all/rp_filter": 0, "icmp_ratelimit": 0}

SupervisorRequest = dict[str, Any]
SupervisorReply = dict[str, Any]


class Supervisor:
    """Single-threaded supervisor that starts, stops and collects processes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.spaces: dict[str, int] = {}
        self.running: dict[str, int] = {}
        self.ended: dict[str, int] = {}
        self.handlers: dict[str, Callable[[SupervisorRequest], SupervisorReply]] = {
            "space": self.make_space,
            "start": self.start,
            "stop": self.stop,
            "signal": self.send_signal,
            "state": self.state,
        }

    def serve(self) -> None:
        """Answer requests without end."""
        server = socket.socket(socket.AF_UNIX)
        server.bind(short(self.folder / SOCKET))
        server.listen(16)
        wake_read, wake_write = os.pipe()
        os.set_blocking(wake_read, False)
        os.set_blocking(wake_write, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(wake_write)
        selector = selectors.DefaultSelector()
        selector.register(server, selectors.EVENT_READ)
        selector.register(wake_read, selectors.EVENT_READ)
        while True:
            for key, _ in selector.select():
                if key.fileobj is server:
                    connection, _ = server.accept()
                    with connection:
                        self.answer(connection)
                else:
                    with contextlib.suppress(BlockingIOError):
                        os.read(wake_read, 4096)
            self.collect()

    def answer(self, connection: socket.socket) -> None:
        """Read one request, execute it, and write the result."""
        connection.settimeout(10)
        try:
            with connection.makefile("rwb") as stream:
                request = json.loads(stream.readline())
                try:
                    reply = self.handlers[request["op"]](request)
                except (OSError, KeyError, ValueError) as error:
                    reply = {"error": f"{type(error).__name__}: {error}"}
                stream.write(json.dumps(reply).encode() + b"\n")
        except (OSError, ValueError) as error:
            print(f"a request was lost: {error}", flush=True)

    def make_space(self, request: SupervisorRequest) -> SupervisorReply:
        """Create network, mount and host-name namespaces and hold them with a process."""
        name = request["name"]
        if name not in self.spaces:
            self.spaces[name] = fork(lambda: hold_space(self.folder, name, request["hostname"]))
        return {"pid": self.spaces[name]}

    def start(self, request: SupervisorRequest) -> SupervisorReply:
        """Start a program in a space. A running program with that name stays."""
        name = request["name"]
        if name not in self.running:
            holder = self.spaces[request["space"]]
            self.ended.pop(name, None)
            self.running[name] = fork(lambda: become(request, holder))
        return {"pid": self.running[name]}

    def stop(self, request: SupervisorRequest) -> SupervisorReply:
        """Stop a program: by SIGTERM, and after `grace` seconds by SIGKILL."""
        name = request["name"]
        pid = self.running.get(name)
        if pid is None:
            return {"stopped": False}
        os.kill(pid, signal.SIGCONT)
        os.kill(pid, signal.SIGTERM)
        deadline = time.monotonic() + float(request["grace"])
        while name in self.running:
            if time.monotonic() > deadline:
                os.kill(pid, signal.SIGKILL)
            time.sleep(0.02)
            self.collect()
        return {"stopped": True, "status": self.ended[name]}

    def send_signal(self, request: SupervisorRequest) -> SupervisorReply:
        """Send a signal to a program, for example SIGSTOP."""
        os.kill(self.running[request["name"]], int(request["signal"]))
        return {}

    def state(self, _request: SupervisorRequest) -> SupervisorReply:
        """Return the running programs, and the exit status of the ended ones."""
        self.collect()
        return {"spaces": self.spaces, "running": self.running, "ended": self.ended}

    def collect(self) -> None:
        """Collect every dead child, adopted orphans included."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            for name, known in list(self.running.items()):
                if known == pid:
                    del self.running[name]
                    self.ended[name] = os.waitstatus_to_exitcode(status)


def fork(body: Callable[[], None]) -> int:
    """Run `body` in a child that never returns here."""
    pid = os.fork()
    if pid:
        return pid
    try:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        body()
    except BaseException as error:  # noqa: BLE001 a forked child must never return
        print(f"a child failed to start: {error}", flush=True)
    os._exit(127)


def hold_space(folder: Path, name: str, hostname: str) -> None:
    """Become the process that keeps a space alive."""
    os.setsid()
    kernel.unshare(kernel.CLONE_NEWNS | kernel.CLONE_NEWNET | kernel.CLONE_NEWUTS)
    kernel.set_hostname(hostname)
    cache = folder.parent.parent
    kept = os.open(cache, os.O_RDONLY | os.O_DIRECTORY)
    private = {place: folder / name / place.strip("/").replace("/", "-") for place in PRIVATE}
    for source in private.values():  # all of them before any mount may hide the cache
        source.mkdir(parents=True, exist_ok=True)
    for place, source in private.items():
        below = f"/proc/self/fd/{kept}/{source.relative_to(cache)}"
        kernel.mount(below, place, "none", kernel.MS_BIND)
    kernel.mount("tmpfs", "/run", "tmpfs", 0, "mode=755")  # sockets and locks only
    if not folder.exists():  # the cache itself lies below one of them: show it again
        cache.mkdir(parents=True)
        kernel.mount(f"/proc/self/fd/{kept}", str(cache), "none", kernel.MS_BIND | kernel.MS_REC)
    # Shared, because the kubelet refuses Bidirectional mounts otherwise. It is a slave of the
    # host's mounts, so no mount reaches the host.
    kernel.mount("", "/", "none", kernel.MS_SHARED | kernel.MS_REC)
    for key, value in SETTINGS.items():
        Path(f"/proc/sys/net/ipv4/{key}").write_text(str(value))
    Path(folder / f"{name}.ready").touch()
    os.execv("/bin/sleep", ["sleep", "infinity"])  # noqa: S606 no shell wanted


def become(request: SupervisorRequest, holder: int) -> None:
    """Become the requested program within the space of `holder`."""
    log = os.open(request["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    nothing = os.open("/dev/null", os.O_RDONLY)
    for kind in ("net", "uts", "mnt"):
        kernel.enter(holder, kind)
    os.setsid()
    os.chdir("/")
    os.dup2(nothing, 0)
    os.dup2(log, 1)
    os.dup2(log, 2)
    argv = request["argv"]
    os.execve(argv[0], argv, {"PATH": PATH, "HOME": "/root", **request["env"]})  # noqa: S606 no shell wanted


def short(path: Path) -> str:
    """Return a spelling of a socket's path that fits into the kernel's 107 bytes."""
    if len(str(path)) <= 100:
        return str(path)
    descriptor = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    return f"/proc/self/fd/{descriptor}/{path.name}"


def main(folder: Path) -> None:
    """Leave the caller's namespaces and become the first process of the cluster."""
    os.setsid()
    cgroups.join(f"{sys.argv[2]}/system")
    kernel.unshare(kernel.CLONE_NEWPID | kernel.CLONE_NEWNS)
    kernel.mount("", "/", "none", kernel.MS_SLAVE | kernel.MS_REC)
    go_read, go_write = os.pipe()
    pid = os.fork()
    if pid:
        scratch = folder / f".{RECORD}"
        scratch.write_text(json.dumps({"pid": pid, "started": started(pid)}))
        scratch.rename(folder / RECORD)
        os.write(go_write, b"!")
        os._exit(0)
    os.close(go_write)
    if not os.read(go_read, 1):  # no record of this process was written
        os._exit(1)
    os.chdir("/")
    kernel.mount("proc", "/proc", "proc")
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    Supervisor(folder).serve()


def started(pid: int) -> str:
    """Return a process's start time in ticks. With the process ID it is a permanent identity."""
    text = Path(f"/proc/{pid}/stat").read_text()
    return text.rpartition(")")[2].split()[19]


if __name__ == "__main__":
    main(Path(sys.argv[1]))
