"""Programs of the testbed, each built once from a pinned Go module.

Owns the table of programs and the folder `bin/<module>-<digest of its pins>` of the cache. Only
`build` builds, `path` only finds.

Hazard: a build must hold the lock of its module, so that a second run waits and finds the result.
Two builds of one module at once would compete for both cores.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tools.testbed import cache, versions
from tools.testbed.artifacts import prebuilt
from tools.testbed.commands import TIED
from tools.testbed.errors import TestbedError
from tools.testbed.machine import preflight
from tools.testbed.progress import StepPrinter

OVERRIDE = "VIRTUAL_CLUSTER_BIN"
_ENVIRONMENT = {"CGO_ENABLED": "0", "GOFLAGS": "-buildvcs=false"}


@dataclass(frozen=True, slots=True)
class GoProgram:
    """A program, the Go module that pins it and its package. `group` is an argument of `build`."""

    name: str
    module: str
    package: str
    group: str
    is_test: bool = False
    """Whether the tests of the package are compiled."""

    @property
    def file(self) -> str:
        """File name that Go chooses: the last part of the package that is not a version."""
        *_, before, last = self.package.split("/")
        return before if re.fullmatch(r"v\d+", last) else last


def _cni(kind: str, name: str) -> GoProgram:
    return GoProgram(
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
    GoProgram("etcd", "etcd", "go.etcd.io/etcd/server/v3", "etcd"),
    GoProgram("etcdctl", "etcd", "go.etcd.io/etcd/etcdctl/v3", "etcd"),
    GoProgram("etcdutl", "etcdutl", "go.etcd.io/etcd/etcdutl/v3", "etcdutl"),
    GoProgram("containerd", "containerd", f"{_CONTAINERD}/containerd", "containerd"),
    GoProgram(
        "containerd-shim-runc-v2",
        "containerd",
        f"{_CONTAINERD}/containerd-shim-runc-v2",
        "containerd",
    ),
    GoProgram("ctr", "containerd", f"{_CONTAINERD}/ctr", "containerd"),
    _cni("main", "bridge"),
    _cni("main", "loopback"),
    _cni("main", "macvlan"),
    _cni("main", "vlan"),
    _cni("ipam", "host-local"),
    _cni("ipam", "static"),
    _cni("meta", "portmap"),
    GoProgram(
        "whereabouts",
        "whereabouts",
        "github.com/k8snetworkplumbingwg/whereabouts/cmd",
        "whereabouts",
    ),
    GoProgram("registry", "registry", "virtual-cluster.local/testbed/registry", "registry"),
    GoProgram(
        "local-path-provisioner",
        "localpath",
        "github.com/rancher/local-path-provisioner",
        "localpath",
    ),
    GoProgram("coredns", "coredns", "virtual-cluster.local/testbed/coredns", "coredns"),
    GoProgram(
        "metrics-server",
        "metrics-server",
        "sigs.k8s.io/metrics-server/cmd/metrics-server",
        "metrics-server",
    ),
    GoProgram("helm", "helm", "helm.sh/helm/v4/cmd/helm", "helm"),
    GoProgram("traefik", "traefik", "github.com/traefik/traefik/v3/cmd/traefik", "traefik"),
    GoProgram("kwok", "kwok", "sigs.k8s.io/kwok/cmd/kwok", "kwok"),
    GoProgram("karpenter", "karpenter", "sigs.k8s.io/karpenter/kwok", "karpenter"),
    GoProgram(
        "network-policies",
        "network-policies",
        "virtual-cluster.local/testbed/network-policies",
        "network-policies",
    ),
    *(
        GoProgram(name, "csi", f"github.com/kubernetes-csi/{package}", "csi")
        for name, package in (
            ("csi-provisioner", "external-provisioner/v6/cmd/csi-provisioner"),
            ("csi-snapshotter", "external-snapshotter/v8/cmd/csi-snapshotter"),
            ("snapshot-controller", "external-snapshotter/v8/cmd/snapshot-controller"),
        )
    ),
    GoProgram("csi-driver", "csi", "virtual-cluster.local/testbed/csi", "csi"),
    GoProgram("alerts", "prometheus", "virtual-cluster.local/testbed/prometheus", "prometheus"),
    GoProgram(
        "podsecurity",
        "podsecurity",
        "virtual-cluster.local/testbed/podsecurity",
        "podsecurity",
    ),
    GoProgram("health", "health", "virtual-cluster.local/testbed/health", "health"),
    GoProgram("dra-driver", "dra-driver", "virtual-cluster.local/testbed/dra-driver", "dra-driver"),
    GoProgram("s3", "s3", "virtual-cluster.local/testbed/s3", "s3"),
    GoProgram("crane", "crane", "github.com/google/go-containerregistry/cmd/crane", "crane"),
    GoProgram(
        "pause", "conformance", "virtual-cluster.local/testbed/conformance/pause", "conformance"
    ),
    *(
        GoProgram(f"cert-manager-{name}", "cert-manager", f"{_CERT_MANAGER}/{name}", "cert-manager")
        for name in ("controller", "webhook", "cainjector")
    ),
)

CLUSTER_GROUPS = (
    *("etcd", "etcdutl", "containerd", "cni", "network-policies"),
    *("registry", "localpath", "coredns", "helm"),
)
"""Groups that every super cluster runs or is set up with, besides its Kubernetes minor."""
_SOURCES = {
    "whereabouts": "github.com/k8snetworkplumbingwg/whereabouts",
    "csi": "github.com/kubernetes-csi/external-snapshotter/client/v8",
    "kwok": "sigs.k8s.io/kwok",
    "karpenter": "sigs.k8s.io/karpenter",
    "cert-manager": "github.com/cert-manager/cert-manager",
    "traefik": "sigs.k8s.io/gateway-api",
    **{entry.suite: "k8s.io/kubernetes" for entry in versions.load().suites},
}
"""Modules with a source that is read as well (`source`), and the module path of that source."""


@dataclass(frozen=True, slots=True)
class ReplacedFile:
    """A file of a dependency that a build replaces with one of our own."""

    module: str
    file: str
    ours: str
    """Path in the folder of our Go module."""


_REPLACED = {
    # Its table of DNS providers imports the clients of all clouds, and some are not served.
    "traefik": ReplacedFile(
        "github.com/go-acme/lego/v5",
        "providers/dns/zz_gen_dns_providers.go",
        "replaced/dns_providers.go",
    ),
}


def programs(groups: Iterable[str]) -> list[GoProgram]:
    """Return the programs of the named groups.

    `kubernetes` stands for all minors. A further minor has only the programs that tenants need.
    `kubernetes-1.36` stands for one minor, with the programs of a super cluster. Raises
    TestbedError for an unknown group.
    """
    table = versions.load()
    found: list[GoProgram] = []
    for group in groups:
        minors = [m for m in table.kubernetes if group in ("kubernetes", m.module)]
        for minor in minors:
            further = SUPER if group == minor.module else TENANT
            names = KUBERNETES if minor is table.kubernetes[0] else further
            found += [_kubernetes(name, minor) for name in names]
        others = [program for program in _others() if program.group == group]
        if not minors and not others:
            raise TestbedError(
                f"there is no group {group!r} of programs. Known groups:"
                f" {', '.join(groups_known())}"
            )
        found += others
    return list(dict.fromkeys(found))


def for_cluster(minor: str) -> list[GoProgram]:
    """Return the programs of a super cluster of one minor, with tenants of the usual minor."""
    table = versions.load()
    modules = dict.fromkeys((table.kubernetes[0].module, table.minor(minor).module))
    return programs([*CLUSTER_GROUPS, *modules])


def is_built(name: str, minor: str | None = None) -> bool:
    """Return whether a program is built."""
    return location(program(name, minor)).is_file()


def groups_known() -> list[str]:
    """Return the names of all groups."""
    minors = {minor.module for minor in versions.load().kubernetes}
    return sorted({"kubernetes", *minors, *(program.group for program in _others())})


def path(name: str, minor: str | None = None) -> Path:
    """Return the path of a program. Raises TestbedError if it is not built."""
    wanted = program(name, minor)
    found = location(wanted)
    if not found.is_file():
        raise TestbedError(
            f"the program {wanted.module}/{wanted.name} is not built: run `make prepare`, or "
            f"`.venv/bin/python -m tools.testbed build {wanted.group}` for it alone"
        )
    return found


def location(program: GoProgram) -> Path:
    """Return the path of a program, built or not. A file in the folder $VIRTUAL_CLUSTER_BIN wins.

    That folder has the super cluster's own minor. A further minor is always built.
    """
    override = os.environ.get(OVERRIDE)
    further = {release.module for release in versions.load().releases[1:]}
    if override and program.module not in further and (Path(override) / program.name).is_file():
        return Path(override) / program.name
    return cache.root() / "bin" / versions.module_key(program.module) / program.name


def source(module: str, path: str) -> Path:
    """Return the folder of a pinned module's source, for the files that it ships besides code.

    `build` fetches it together with the programs. Raises TestbedError.
    """
    offline = {"GOPROXY": "off"} if prebuilt.is_required() else {}
    result = subprocess.run(
        [*TIED, _go(), "mod", "download", "-json", path],
        cwd=versions.GOMOD / module,
        env={**os.environ, **offline},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
    )
    if result.returncode != 0:
        prebuilt.refuse(f"the source of {path}")
        detail = result.stderr.decode(errors="replace").strip().splitlines()[-1:]
        raise TestbedError(f"getting the source of {path} failed: {''.join(detail)}")
    return Path(json.loads(result.stdout)["Dir"])


def build(wanted: Iterable[GoProgram], progress: StepPrinter) -> None:
    """Build the missing programs, one module after the other, and those of one module at once.

    Also fetches the sources that are read of these modules.
    """
    every = list(wanted)
    missing = [program for program in every if not location(program).is_file()]
    if missing:
        prebuilt.refuse(f"{missing[0].module}/{missing[0].name}")
        go = _go()
        batches = _batches(missing)
        for number, batch in enumerate(batches, 1):
            names = ", ".join(program.name for program in batch)
            title = f"build {batch[0].module}: {names} ({number} of {len(batches)}, once)"
            with progress.step(title), cache.locked(f"build-{batch[0].module}"):
                left = [program for program in batch if not location(program).is_file()]
                if left:
                    _build(go, left)
    for module in {program.module for program in every} & _SOURCES.keys():
        source(module, _SOURCES[module])


def fetch(wanted: Iterable[GoProgram]) -> None:
    """Fetch the modules of missing programs, for a `build` that runs at the same time."""
    missing = [program for program in wanted if not location(program).is_file()]
    for batch in _batches([each for each in missing if each.module not in _REPLACED]):
        subprocess.run(
            [*TIED, _go(), "list", "-deps", *(program.package for program in batch)],
            cwd=versions.GOMOD / batch[0].module,
            env={**os.environ, **_ENVIRONMENT},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            check=False,
        )


def _batches(missing: Sequence[GoProgram]) -> list[list[GoProgram]]:
    """Group programs by call of Go, which compiles shared packages once and links in parallel."""
    found: dict[tuple[str, bool], list[GoProgram]] = {}
    for program in missing:
        found.setdefault((program.module, program.is_test), []).append(program)
    return list(found.values())


def _build(go: str, batch: Sequence[GoProgram]) -> None:
    module = batch[0].module
    folder = location(batch[0]).parent
    folder.mkdir(parents=True, exist_ok=True)
    temporary = cache.folder("scratch", f"go-{module}")
    made = cache.folder("scratch", f"go-{module}", "made")
    verb = ["test", "-c", "-vet=off"] if batch[0].is_test else ["build"]
    output = made / batch[0].name if batch[0].is_test else made
    verb += _replace_file(module, temporary)
    result = subprocess.run(
        [
            *(*TIED, go, *verb, "-trimpath", "-ldflags", _flags(module), "-o", str(output)),
            *(program.package for program in batch),
        ],
        cwd=versions.GOMOD / module,
        env={
            **os.environ,
            **_ENVIRONMENT,
            "GOTMPDIR": str(temporary),
        },
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        check=False,
    )
    if result.returncode == 0:
        for program in batch:
            file = made / (program.name if program.is_test else program.file)
            file.rename(folder / program.name)
    cache.remove(temporary)  # a killed Go does not remove its own
    if result.returncode != 0:
        tail = result.stderr.decode(errors="replace").strip().splitlines()[-5:]
        names = ", ".join(program.name for program in batch)
        raise TestbedError(f"building {names} from gomod/{module} failed: " + "\n  ".join(tail))


def _replace_file(module: str, scratch: Path) -> list[str]:
    """Copy the dependency that has a replaced file. Returns the arguments for Go that use it.

    Go refuses overlays in its module cache. So the copy takes the place of the whole dependency.
    """
    replaced = _REPLACED.get(module)
    if replaced is None:
        return []
    ours = versions.GOMOD / module
    theirs = cache.folder("scratch", f"go-{module}", "replaced")
    shutil.copytree(
        source(module, replaced.module), theirs, copy_function=shutil.copyfile, dirs_exist_ok=True
    )
    for folder in (theirs, *(each for each in theirs.rglob("*") if each.is_dir())):
        folder.chmod(0o755)
    shutil.copyfile(ours / replaced.ours, theirs / replaced.file)
    modules = scratch / "go.mod"
    text = (ours / "go.mod").read_text().replace("=> ./", f"=> {ours}/")
    modules.write_text(f"{text}\nreplace {replaced.module} => {theirs}\n")
    shutil.copyfile(ours / "go.sum", scratch / "go.sum")
    return ["-modfile", str(modules)]


def _flags(module: str) -> str:
    flags = ["-s", "-w"]
    known = versions.load()
    minors = {entry.module: entry for entry in known.releases} | {
        entry.suite: entry for entry in known.suites
    }
    if module in minors:
        entry = minors[module]
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


def _kubernetes(name: str, minor: versions.KubernetesRelease) -> GoProgram:
    return GoProgram(name, minor.module, f"k8s.io/kubernetes/cmd/{name}", "kubernetes")


def _others() -> tuple[GoProgram, ...]:
    """Return all programs except those of whole Kubernetes minors."""
    suites = (program for suite in versions.load().suites for program in _suite(suite).values())
    return (*PROGRAMS, *_kubectls().values(), *suites)


def _kubectls() -> dict[str, GoProgram]:
    """Return the programs of kubectl alone, by minor."""
    package = "virtual-cluster.local/testbed/kubectl"
    return {
        each.minor: GoProgram("kubectl", each.module, package, "kubectl")
        for each in versions.load().kubectl
    }


def _suite(minor: versions.KubernetesRelease) -> dict[str, GoProgram]:
    """Return the programs of a minor's conformance suite and of the images of its cases."""
    images = "k8s.io/kubernetes/test/images"
    packages = {
        "e2e.test": "k8s.io/kubernetes/test/e2e",
        "agnhost": f"{images}/agnhost",
        "nonewprivs": f"{images}/nonewprivs",
        "sample-apiserver": "k8s.io/sample-apiserver",
    }
    return {
        name: GoProgram(name, minor.suite, package, minor.suite, is_test=name == "e2e.test")
        for name, package in packages.items()
    }


def program(name: str, minor: str | None = None) -> GoProgram:
    """Return a program by name, one of Kubernetes' own by minor as well. Raises TestbedError."""
    if name == "kubectl" and minor in _kubectls():
        return _kubectls()[minor]
    if name in KUBERNETES:
        return _kubernetes(name, versions.load().minor(minor))
    suite = versions.load().minor(minor)
    if suite.suite and name in _suite(suite):
        return _suite(suite)[name]
    for each in PROGRAMS:
        if each.name == name:
            return each
    raise TestbedError(f"the testbed has no program {name!r}")
