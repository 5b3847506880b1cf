"""Requirements on the machine: root, Debian packages, kernel features, Go.

Owns the list of each. Installs packages only with `CI=true` or `YES=1`. Any other missing part is
reported in one line.

Hazard: a check must test a feature in a temporary namespace and must not guess. A guess (from a
module that is not loaded, or a missing config file) refuses good machines.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

from tools.testbed import cache
from tools.testbed.commands import run
from tools.testbed.errors import TestbedError
from tools.testbed.progress import StepPrinter

_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

# program → Debian package
PACKAGES = {
    "runc": "runc",
    "iptables": "iptables",
    "nft": "nftables",
    "conntrack": "conntrack",
    "ip": "iproute2",
    "nsenter": "util-linux",
    "debootstrap": "debootstrap",
}

# feature → a command that works only with it
FEATURES = {
    "network namespaces": "true",
    "veth": "ip link add probe0 type veth peer name probe1",
    "bridge": "ip link add probe2 type bridge",
    "nf_tables": "nft add table inet probe",
    "NAT in nf_tables": "nft add table ip probe; "
    "nft add chain ip probe nat '{ type nat hook postrouting priority 100; }'; "
    "nft add rule ip probe nat masquerade",
    "br_netfilter": "test -e /proc/sys/net/bridge/bridge-nf-call-iptables",
    "overlayfs in the cache folder": "mkdir -p $PROBE/l $PROBE/u $PROBE/w $PROBE/m && "
    "mount -t overlay overlay -o lowerdir=$PROBE/l,upperdir=$PROBE/u,workdir=$PROBE/w $PROBE/m",
    "cgroups": "test -e /sys/fs/cgroup/cgroup.controllers -o -e /sys/fs/cgroup/memory",
}
_QUEUE = "iptables -w -t mangle -A POSTROUTING -m owner --uid-owner 0 -j NFQUEUE --queue-bypass"
_QUEUE_MODULES = ("xt_NFQUEUE", "xt_owner", "nfnetlink_queue")
_MODULES = ("overlay", "veth", "bridge", "br_netfilter", "nf_tables", "nft_masq", "nft_chain_nat")

GO_MINIMUM = (1, 26)
SPACE_MINIMUM = 3 << 30
"""Bytes."""


def check(progress: StepPrinter) -> None:
    """Refuse a machine that cannot run a cluster. Installs packages if that was allowed."""
    with progress.step("check the machine"):
        _tools()
        _kernel()
        check_space(cache.folder())


def check_space(folder: Path) -> None:
    """Raise TestbedError if the folder's disk has too little space for a cluster.

    Without space its etcd ends, and all that a user sees is that the cluster is not ready in time.
    """
    free = shutil.disk_usage(folder).free
    if free < SPACE_MINIMUM:
        raise TestbedError(
            f"the disk of {folder} has {free >> 20} MiB left, and a cluster needs"
            f" {SPACE_MINIMUM >> 20} MiB. Remove files there first"
        )


def check_tools(progress: StepPrinter) -> None:
    """Refuse a machine that cannot build images. Installs packages if that was allowed."""
    with progress.step("check the machine's tools"):
        _tools()


def check_go(go: str) -> None:
    """Refuse a Go that is too old for the pinned modules."""
    output = run([go, "env", "GOVERSION"], cwd=Path("/")).strip()
    match = re.match(r"go(\d+)\.(\d+)", output)
    if match is None or (int(match[1]), int(match[2])) < GO_MINIMUM:
        needed = ".".join(map(str, GO_MINIMUM))
        raise TestbedError(
            f"{go} is {output or 'of unknown version'} and the pinned modules need Go {needed} or "
            "newer: install it from https://go.dev/dl/ and put it first on PATH"
        )


def decide_enforcement(wanted: bool | None, progress: StepPrinter) -> bool:
    """Return whether a new cluster enforces NetworkPolicies. None: if the kernel can.

    Raises TestbedError if enforcement is wanted and the kernel lacks NFQUEUE.
    """
    if wanted is False or _can_queue_packets():
        return wanted is not False
    if wanted:
        raise TestbedError(
            "the kernel lacks NFQUEUE, which enforcement of NetworkPolicies needs. Load xt_NFQUEUE"
            " and xt_owner, or use `up --no-enforce`"
        )
    progress.note("the kernel lacks NFQUEUE: NetworkPolicies are not enforced")
    return False


def _can_queue_packets() -> bool:
    """Return whether the kernel hands packets to a program, which decides about each."""
    for module in _QUEUE_MODULES if shutil.which("modprobe", path=_PATH) else ():
        subprocess.run(["modprobe", "--quiet", module], check=False, capture_output=True)
    result = subprocess.run(
        ["unshare", "--net", "sh", "-c", _QUEUE],
        capture_output=True,
        check=False,
        env={"PATH": _PATH},
    )
    return result.returncode == 0


def _tools() -> None:
    if os.geteuid() != 0:
        raise TestbedError(
            "the testbed makes namespaces, mounts and cgroups and needs root: run it with sudo"
        )
    _packages()


def _packages() -> None:
    missing = sorted(_missing())
    if not missing:
        return
    if os.environ.get("CI") != "true" and os.environ.get("YES") != "1":
        raise TestbedError(
            f"missing packages: {' '.join(missing)}. Run the command again as root with `YES=1`"
            f" before it, or run `apt-get install {' '.join(missing)}`"
        )
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    run(["apt-get", "update", "--quiet"], env=environment)
    command = ["apt-get", "install", "--yes", "--quiet", "--no-install-recommends"]
    run([*command, *missing], env=environment)
    still = sorted(_missing())
    if still:
        raise TestbedError(f"`apt-get install` did not install {' '.join(still)}. Install by hand")


def _missing() -> set[str]:
    found = {program: shutil.which(program, path=_PATH) for program in PACKAGES}
    return {PACKAGES[program] for program, path in found.items() if path is None}


def _kernel() -> None:
    if not _try_features():
        return
    modules = _MODULES if shutil.which("modprobe", path=_PATH) else ()
    for module in modules:
        subprocess.run(["modprobe", "--quiet", module], check=False, capture_output=True)
    missing = _try_features()
    if missing:
        raise TestbedError(
            f"the kernel lacks: {', '.join(missing)}. Load the modules or use another kernel (a"
            " container needs --privileged)"
        )


def _try_features() -> list[str]:
    script = "\n".join(
        f"({command}) >/dev/null 2>&1 || echo '{name}'" for name, command in FEATURES.items()
    )
    probe = cache.folder("scratch", f"probe-{os.getpid()}")
    result = subprocess.run(
        ["unshare", "--net", "--mount", "sh", "-c", script],
        capture_output=True,
        check=False,
        text=True,
        env={"PATH": _PATH, "PROBE": str(probe)},
    )
    cache.remove(probe)
    if result.returncode != 0 and not result.stdout:
        return ["network namespaces"]
    return result.stdout.split("\n")[:-1]
