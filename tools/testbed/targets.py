"""Needs of each Makefile target before its first step: programs, and images.

Owns the table of targets. Hazard: a test that uses a program of a further group needs that group in
the row of each target that runs it. Tests build nothing (`prebuilt`), so the test fails otherwise.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from tools.testbed import versions
from tools.testbed.artifacts import (
    binaries,
    browser,
    cert_manager,
    content,
    debian,
    haproxy,
    images,
    oidc_server,
    product,
)
from tools.testbed.errors import TestbedError
from tools.testbed.machine import preflight
from tools.testbed.networks import gateway
from tools.testbed.progress import StepPrinter

Step = Callable[[StepPrinter], object]
"""A step that builds images, quick if they exist. The programs are built before it."""


@dataclass(frozen=True, slots=True)
class Target:
    """The needs of one target."""

    groups: tuple[str, ...] = ()
    """Groups of programs, arguments of `build`."""
    packages: tuple[Step, ...] = ()
    """Steps that install packages of Debian or npm, for programs that tests run here."""
    images: tuple[Step, ...] = ()
    """Steps after the programs. With any step, the machine must be able to run a cluster."""

    def __or__(self, other: Target) -> Target:
        """Return the needs of both."""
        groups = dict.fromkeys([*self.groups, *other.groups])
        packages = dict.fromkeys([*self.packages, *other.packages])
        steps = dict.fromkeys([*self.images, *other.images])
        return Target(tuple(groups), tuple(packages), tuple(steps))


def _cluster_images(progress: StepPrinter) -> None:
    """Build the images of every node, and our components from the working tree."""
    content.prepare(product.stable_images(progress), progress)
    product.build(progress)


def _some_tenants_images(progress: StepPrinter) -> None:
    images.build_further(progress, *images.FURTHER)


def _metrics_image(progress: StepPrinter) -> None:
    images.build_further(progress, "metrics-server")


def _shipped_interpreter(progress: StepPrinter) -> None:
    product.site(debian.root(progress), progress)


_OWN, *_FURTHER = versions.load().kubernetes
_NEWER = tuple(each.module for each in _FURTHER if each.number > _OWN.number)
"""Minors after the default one. A super cluster of such a minor runs in `slow` only."""
_OLDER = tuple(each.module for each in _FURTHER if each.number < _OWN.number)

_PURE = Target()
_PROPERTIES = Target(("podsecurity",))
_DEMO = Target((*binaries.CLUSTER_GROUPS, _OWN.module), images=(_cluster_images,))
_UP = _DEMO | Target(("metrics-server",), images=(_metrics_image,))
_INTEGRATION = Target(
    (
        *("etcd", "etcdutl", "coredns", "metrics-server", "helm", "prometheus", "kubernetes"),
        *("s3", "health", "cni", "whereabouts"),
    ),
    packages=(haproxy.build, oidc_server.prepare),
)
_NODE = _UP | Target(("kubectl", "whereabouts"), images=(_shipped_interpreter, haproxy.build_image))
_TEST = _INTEGRATION | _NODE | _PROPERTIES
_THOROUGH = _TEST | Target(
    (*_OLDER, "csi", "kwok", "karpenter", "cert-manager", "dra-driver", "traefik"),
    images=(_some_tenants_images, cert_manager.build, gateway.build),
)
_SLOW = _THOROUGH | Target(_NEWER, images=(browser.build,))
_BENCH = _UP | Target(("kwok",), images=(_shipped_interpreter,))

TARGETS = {
    "unit": _PURE,
    "properties": _PROPERTIES,
    "demo": _DEMO,
    "up": _UP,
    "integration": _INTEGRATION,
    "node": _NODE,
    "test": _TEST,
    "thorough": _THOROUGH,
    "slow": _SLOW,
    "conformance": _DEMO | Target(("conformance",)),
    "bench": _BENCH,
}
"""Needs by target name. The conformance suite's images are built by its own program."""


def prepare(name: str, progress: StepPrinter) -> None:
    """Build the missing needs of a target. Raises TestbedError."""
    if name not in TARGETS:
        raise TestbedError(f"there is no target {name!r}. Known targets: {', '.join(TARGETS)}")
    target = TARGETS[name]
    if not target.images:
        binaries.build(binaries.programs(target.groups), progress)
        for step in target.packages:
            step(progress)
        return
    preflight.check(progress)
    programs = binaries.programs(target.groups)
    # debootstrap, pip and downloads wait for the network and the disk while Go has the processors.
    with ThreadPoolExecutor(2) as pool:
        below = pool.submit(_below_everything, progress)
        pool.submit(binaries.fetch, programs)
        binaries.build(programs, progress)
        below.result()
    for step in (*target.packages, *target.images):
        step(progress)


def _below_everything(progress: StepPrinter) -> None:
    """Build the layers that images start from, which need no program of ours."""
    product.libraries(debian.root(progress), progress)
