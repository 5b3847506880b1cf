"""Leftovers of a cluster on the machine: each kind, with a way to find it.

Hazard: containers and rules of the machine itself must not be reported. Leftovers with our name or
place are ours. The kernel's rules and the fixed places of Kubernetes' programs are compared with a
record from before the first cluster.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable
from pathlib import Path

from tools.testbed import cache
from tools.testbed.cluster import network
from tools.testbed.cluster.components import clusters_folder
from tools.testbed.commands import run
from tools.testbed.machine import cgroups

# Default folders of Kubernetes' programs, containerd and CNI.
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

_NETNS_FOLDER = Path("/run/netns")
_NETNS_PREFIX = "cni-"
"""Prefix of containerd's network namespaces of pods."""


def note_before() -> None:
    """Record the state of the machine. Must be called before the first cluster."""
    state = {"rules": sorted(_rules()), "places": sorted(_places()), "netns": sorted(_netns())}
    cache.write_atomic(_note(), json.dumps(state, indent=1))


def find_of(name: str) -> list[str]:
    """Return the leftovers of one cluster while other clusters may be up."""
    tree = f"{cgroups.PREFIX}{name}"
    folder = clusters_folder() / name
    searches: dict[str, Iterable[str]] = {
        "process": _processes([tree], f"{folder}/"),
        "mount": _mounts(folder),
        "cgroup": [found for found in cgroups.trees() if found == tree],
        "cluster folder": [str(folder)] if folder.exists() else [],
    }
    return [f"{kind}: {item}" for kind, found in searches.items() for item in found]


def find() -> list[str]:
    """Return all leftovers, one line each. Empty if the machine is clean."""
    searches: dict[str, Callable[[], Iterable[str]]] = {
        "process": lambda: _processes(cgroups.trees(), f"{clusters_folder()}/"),
        "mount": lambda: _mounts(cache.root()),
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


def _processes(trees: Iterable[str], folder: str) -> Iterable[str]:
    pids = {pid for tree in trees for pid in cgroups.processes(tree)}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            words = (entry / "cmdline").read_bytes()
        except OSError:
            continue
        # A supervisor names the folder itself, other programs name files in it.
        mine = any(f"{os.fsdecode(word)}/".startswith(folder) for word in words.split(b"\0"))
        if int(entry.name) in pids or mine or os.fsencode(folder) in words:
            shown = words.replace(b"\0", b" ").decode(errors="replace")[:120]
            yield f"{entry.name} {shown}"


def _mounts(folder: Path) -> Iterable[str]:
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        target = line.split()[4]
        if target.startswith(f"{folder}/"):
            yield target


def _netns() -> set[str]:
    """Return the namespaces that have containerd's names. Others belong to other programs."""
    return {path.name for path in _NETNS_FOLDER.glob(f"{_NETNS_PREFIX}*")}


def _routes() -> Iterable[str]:
    return [line for line in run(["ip", "-4", "route"]).splitlines() if "dev vctest" in line]


def _rules() -> set[str]:
    """Return the rules of Kubernetes' programs and CNI plugins, recognized by their names."""
    text = run(["nft", "list", "ruleset"], check=False)
    for program in ("iptables-save", "ip6tables-save"):
        text += run([program], check=False)
    marks = ("kube-proxy", "KUBE-", "CNI-", "cni-")
    return {line.strip() for line in text.splitlines() if any(mark in line for mark in marks)}


def _places() -> set[str]:
    return {place for place in _PLACES if Path(place).exists()}


def _limits() -> Iterable[str]:
    return ["limits.json records that limits of the kernel are raised"] if _is_lifted() else []


def _is_lifted() -> bool:
    return (cache.root() / "limits.json").exists()
