"""What a cluster could have left on the machine: every kind of thing, each with a way to find it.

Hazard: a machine has containers and rules of its own. What is told apart by name or by place is
ours; the kernel's rules and the fixed places of Kubernetes' programs are compared with a note of
how they were before the first cluster.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path

from tests.testbed import cache, cgroups, control, network
from tests.testbed.commands import run
from tests.testbed.components import clusters_folder

# Where Kubernetes' programs, containerd and CNI write unless they are told otherwise.
_PLACES = (
    "/etc/cni",
    "/etc/kubernetes",
    "/opt/cni",
    "/opt/containerd",
    "/opt/local-path-provisioner",
    "/run/containerd",
    "/run/kubernetes",
    "/run/nri",
    "/run/runc",
    "/run/xtables.lock",
    "/usr/libexec/kubernetes",
    "/var/lib/cni",
    "/var/lib/containerd",
    "/var/lib/etcd",
    "/var/lib/kubelet",
    "/var/lib/local-path-provisioner",
    "/var/log/containers",
    "/var/log/pods",
    "/var/run/kubernetes",
)


def note_before() -> None:
    """Write down how the machine is; call it before the first cluster."""
    state = {"rules": sorted(_rules()), "places": sorted(_places()), "netns": sorted(_netns())}
    cache.write_atomic(_note(), json.dumps(state, indent=1))


def find() -> list[str]:
    """Everything that is left, one line each; empty is clean."""
    searches: dict[str, Callable[[], Iterable[str]]] = {
        "process": _processes,
        "mount": _mounts,
        "network namespace": lambda: _new("netns", _netns()),
        "interface": network.links,
        "route": _routes,
        "cgroup": cgroups.trees,
        "nft or iptables rule": lambda: _new("rules", _rules()),
        "folder": lambda: _new("places", _places()),
        "cluster folder": lambda: [str(path) for path in clusters_folder().iterdir()],
        "changed limit": _limits,
    }
    return [f"{kind}: {item}" for kind, search in searches.items() for item in search()]


def _note() -> Path:
    return cache.root() / "before.json"


def _new(kind: str, found: Iterable[str]) -> list[str]:
    before = json.loads(_note().read_text())[kind] if _note().exists() else []
    return sorted(set(found) - set(before))


def _processes() -> Iterable[str]:
    pids = {pid for tree in cgroups.trees() for pid in cgroups.processes(tree)}
    pids |= set(control.all_supervisors())
    folder = f"{clusters_folder()}/".encode()
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            words = (entry / "cmdline").read_bytes()
        except OSError:
            continue
        if int(entry.name) in pids or folder in words:
            shown = words.replace(b"\0", b" ").decode(errors="replace")[:120]
            yield f"{entry.name} {shown}"


def _mounts() -> Iterable[str]:
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        target = line.split()[4]
        if target.startswith(f"{cache.root()}/"):
            yield target


def _netns() -> set[str]:
    folder = Path("/run/netns")
    return {path.name for path in folder.iterdir()} if folder.is_dir() else set()


def _routes() -> Iterable[str]:
    return [line for line in run(["ip", "-4", "route"]).splitlines() if "dev vctest" in line]


def _rules() -> set[str]:
    """The rules that Kubernetes' programs and CNI plugins make, told by their names."""
    text = run(["nft", "list", "ruleset"], check=False)
    for program in ("iptables-save", "ip6tables-save"):
        text += run([program], check=False)
    marks = ("kube-proxy", "KUBE-", "CNI-", "cni-")
    return {line.strip() for line in text.splitlines() if any(mark in line for mark in marks)}


def _places() -> set[str]:
    return {place for place in _PLACES if Path(place).exists()}


def _limits() -> Iterable[str]:
    return ["limits.json says that limits of the kernel are raised"] if _is_lifted() else []


def _is_lifted() -> bool:
    return (cache.root() / "limits.json").exists()
