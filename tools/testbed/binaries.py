"""The programs that the testbed runs, each built once from a pinned Go module.

Owns the table of programs and the folder `bin/<module>-<digest of its pins>` of the cache.

Hazard: two runs that build the same module at once would fight for both cores; the lock of the
module makes the second one wait and find the work done.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from tools.testbed import cache, preflight, versions
from tools.testbed.commands import TIED
from tools.testbed.errors import TestbedError
from tools.testbed.progress import Progress

OVERRIDE = "VIRTUAL_CLUSTER_BIN"


@dataclass(frozen=True, slots=True)
class Program:
    """A program, the Go module that pins it and its package; `group` is what `build` is told."""

    name: str
    module: str
    package: str
    group: str
    is_test: bool = False
    """Whether it is the tests of the package that are compiled."""


def _cni(kind: str, name: str) -> Program:
    return Program(
        name, "cni", f"github.com/containernetworking/plugins/plugins/{kind}/{name}", "cni"
    )


_CONTAINERD = "github.com/containerd/containerd/v2/cmd"
_CERT_MANAGER = "github.com/cert-manager/cert-manager/cmd"
KUBERNETES = (
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "kubelet",
    "kube-proxy",
    "kubectl",
)
TENANT = ("kube-apiserver", "kube-controller-manager")
SUPER = (*TENANT, "kube-scheduler", "kubelet", "kube-proxy")  # kubectl works with other minors

PROGRAMS = (
    Program("etcd", "etcd", "go.etcd.io/etcd/server/v3", "etcd"),
    Program("etcdctl", "etcd", "go.etcd.io/etcd/etcdctl/v3", "etcd"),
    Program("etcdutl", "etcdutl", "go.etcd.io/etcd/etcdutl/v3", "etcdutl"),
    Program("containerd", "containerd", f"{_CONTAINERD}/containerd", "containerd"),
    Program(
        "containerd-shim-runc-v2",
        "containerd",
        f"{_CONTAINERD}/containerd-shim-runc-v2",
        "containerd",
    ),
    Program("ctr", "containerd", f"{_CONTAINERD}/ctr", "containerd"),
    _cni("main", "bridge"),
    _cni("main", "loopback"),
    _cni("ipam", "host-local"),
    _cni("meta", "portmap"),
    Program(
        "registry", "registry", "github.com/distribution/distribution/v3/cmd/registry", "registry"
    ),
    Program(
        "local-path-provisioner",
        "localpath",
        "github.com/rancher/local-path-provisioner",
        "localpath",
    ),
    Program("coredns", "coredns", "github.com/coredns/coredns", "coredns"),
    Program(
        "metrics-server",
        "metrics-server",
        "sigs.k8s.io/metrics-server/cmd/metrics-server",
        "metrics-server",
    ),
    Program("helm", "helm", "helm.sh/helm/v4/cmd/helm", "helm"),
    Program("kwok", "kwok", "sigs.k8s.io/kwok/cmd/kwok", "kwok"),
    Program("alerts", "prometheus", "virtual-cluster.local/testbed/prometheus", "prometheus"),
    Program("crane", "crane", "github.com/google/go-containerregistry/cmd/crane", "crane"),
    Program("e2e.test", "conformance", "k8s.io/kubernetes/test/e2e", "conformance", is_test=True),
    Program("agnhost", "conformance", "k8s.io/kubernetes/test/images/agnhost", "conformance"),
    Program("nonewprivs", "conformance", "k8s.io/kubernetes/test/images/nonewprivs", "conformance"),
    Program("sample-apiserver", "conformance", "k8s.io/sample-apiserver", "conformance"),
    Program(
        "pause", "conformance", "virtual-cluster.local/testbed/conformance/pause", "conformance"
    ),
    *(
        Program(f"cert-manager-{name}", "cert-manager", f"{_CERT_MANAGER}/{name}", "cert-manager")
        for name in ("controller", "webhook", "cainjector")
    ),
)

CLUSTER_GROUPS = (
    "etcd",
    "kubernetes",
    "containerd",
    "cni",
    "registry",
    "localpath",
    "coredns",
    "metrics-server",
    "helm",
)


def programs(groups: Iterable[str]) -> list[Program]:
    """The programs of the named groups.

    `kubernetes` means all minors, and of a further one only what tenants need; `kubernetes-1.36`
    means one minor, with what a super cluster of it needs.
    """
    table = versions.load()
    found: list[Program] = []
    for group in groups:
        minors = [m for m in table.kubernetes if group in ("kubernetes", m.module)]
        for minor in minors:
            further = SUPER if group == minor.module else TENANT
            names = KUBERNETES if minor is table.kubernetes[0] else further
            found += [_kubernetes(name, minor) for name in names]
        others = [program for program in _others() if program.group == group]
        if not minors and not others:
            raise TestbedError(
                f"there is no group {group!r} of programs; known: {', '.join(groups_known())}"
            )
        found += others
    return found


def for_cluster(minor: str) -> list[Program]:
    """The programs of a super cluster of one minor, with tenants of the usual one."""
    table = versions.load()
    modules = dict.fromkeys((table.kubernetes[0].module, table.minor(minor).module))
    return programs([*(group for group in CLUSTER_GROUPS if group != "kubernetes"), *modules])


def is_built(name: str, minor: str) -> bool:
    """Whether a program of a Kubernetes minor is there."""
    return location(_find(name, minor)).is_file()


def groups_known() -> list[str]:
    """What `build` can be told."""
    minors = {minor.module for minor in versions.load().kubernetes}
    return sorted({"kubernetes", *minors, *(program.group for program in _others())})


def path(name: str, minor: str | None = None) -> Path:
    """Where a program is, built on the spot when it is missing."""
    program = _find(name, minor)
    build([program], Progress())
    return location(program)


def location(program: Program) -> Path:
    """Where a program is or will be; a file in the folder $VIRTUAL_CLUSTER_BIN wins.

    That folder has the super cluster's own minor; a further one is always built.
    """
    override = os.environ.get(OVERRIDE)
    further = {release.module for release in versions.load().releases[1:]}
    if override and program.module not in further and (Path(override) / program.name).is_file():
        return Path(override) / program.name
    return cache.root() / "bin" / versions.module_key(program.module) / program.name


def source(module: str, path: str) -> Path:
    """Where the unpacked source of a module is that a go.mod pins: what it ships besides code."""
    result = subprocess.run(
        [*TIED, _go(), "mod", "download", "-json", path],
        cwd=versions.GOMOD / module,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
    )
    if result.returncode != 0:
        detail = result.stderr.decode(errors="replace").strip().splitlines()[-1:]
        raise TestbedError(f"getting the source of {path} failed: {''.join(detail)}")
    return Path(json.loads(result.stdout)["Dir"])


def build(wanted: Iterable[Program], progress: Progress) -> None:
    """Build what is missing, one module after the other."""
    missing = [program for program in wanted if not location(program).is_file()]
    if not missing:
        return
    go = _go()
    for number, program in enumerate(missing, 1):
        title = f"build {program.module}/{program.name} ({number} of {len(missing)}, once)"
        with progress.step(title), cache.locked(f"build-{program.module}"):
            if not location(program).is_file():
                _build(go, program)


def _build(go: str, program: Program) -> None:
    target = location(program)
    target.parent.mkdir(parents=True, exist_ok=True)
    scratch = target.with_name(f".{program.name}.making")
    temporary = cache.folder("scratch", f"go-{program.module}")
    verb = ["test", "-c", "-vet=off"] if program.is_test else ["build"]
    command = [go, *verb, "-trimpath", "-ldflags", _flags(program), "-o", str(scratch)]
    result = subprocess.run(
        [*TIED, *command, program.package],
        cwd=versions.GOMOD / program.module,
        env={
            **os.environ,
            "CGO_ENABLED": "0",
            "GOFLAGS": "-buildvcs=false",
            "GOTMPDIR": str(temporary),
        },
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        check=False,
    )
    cache.remove(temporary)  # Go leaves its own behind when it is killed
    if result.returncode != 0:
        tail = result.stderr.decode(errors="replace").strip().splitlines()[-5:]
        raise TestbedError(
            f"building {program.name} from gomod/{program.module} failed: " + "\n  ".join(tail)
        )
    scratch.rename(target)


def _flags(program: Program) -> str:
    flags = ["-s", "-w"]
    known = versions.load()
    minors = {entry.module: entry for entry in known.releases} | {
        versions.SUITE: known.kubernetes[0]
    }
    if program.module in minors:
        entry = minors[program.module]
        major, minor = entry.minor.split(".")
        for package in ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version"):
            flags += ["-X", f"{package}.gitVersion=v{entry.version}"]
            flags += ["-X", f"{package}.gitMajor={major}", "-X", f"{package}.gitMinor={minor}"]
    return " ".join(flags)


def _go() -> str:
    go = shutil.which("go")
    if go is None:
        raise TestbedError(
            "Go is missing: install Go 1.26 or newer from https://go.dev/dl/ and put it on PATH"
        )
    preflight.check_go(go)
    return go


def _kubernetes(name: str, minor: versions.Kubernetes) -> Program:
    return Program(name, minor.module, f"k8s.io/kubernetes/cmd/{name}", "kubernetes")


def _others() -> tuple[Program, ...]:
    """All programs but those of whole Kubernetes minors."""
    return (*PROGRAMS, *_kubectls().values())


def _kubectls() -> dict[str, Program]:
    """kubectl alone, by its minor."""
    package = "virtual-cluster.local/testbed/kubectl"
    return {
        each.minor: Program("kubectl", each.module, package, "kubectl")
        for each in versions.load().kubectl
    }


def _find(name: str, minor: str | None) -> Program:
    if name == "kubectl" and minor in _kubectls():
        return _kubectls()[minor]
    if name in KUBERNETES:
        return _kubernetes(name, versions.load().minor(minor))
    for program in PROGRAMS:
        if program.name == name:
            return program
    raise TestbedError(f"the testbed has no program {name!r}")
