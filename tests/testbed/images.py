"""Which images there are and what is in them.

Hazard: a name without a registry means docker.io to Kubernetes; the table spells names in full.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.testbed import binaries, debian, oci, versions
from tests.testbed.errors import TestbedError
from tests.testbed.oci import Blob, Entry, Image
from tests.testbed.progress import Progress

PREFIX = "registry.local/virtual-cluster"
PAUSE = f"{PREFIX}/pause:1"
BUSYBOX = "docker.io/library/busybox:latest"
PYTHON = "docker.io/library/python:3-slim"


@dataclass(frozen=True, slots=True)
class Recipe:
    """How one image is made from the unpacked Debian root; `group` as `build` knows it."""

    name: str
    group: str
    make: Callable[[Path], Image]


def recipes() -> list[Recipe]:
    """All images that change only with the pinned versions."""
    etcd = versions.module_version("etcd", "go.etcd.io/etcd/server/v3")
    coredns = versions.module_version("coredns", "github.com/coredns/coredns")
    provisioner = versions.module_version("localpath", "github.com/rancher/local-path-provisioner")
    table = [
        Recipe(PAUSE, "base", _pause),
        Recipe(BUSYBOX, "base", _busybox),
        Recipe(PYTHON, "base", _python),
        _programs(f"{PREFIX}/etcd:{etcd}", "etcd", "etcd", "etcdctl"),
        _programs(f"{PREFIX}/coredns:{coredns}", "coredns", "coredns"),
        _programs(
            f"{PREFIX}/local-path-provisioner:{provisioner}", "localpath", "local-path-provisioner"
        ),
    ]
    for minor in versions.load().kubernetes:
        for name in binaries.TENANT:
            image = f"{PREFIX}/{name}:v{minor.version}"
            table.append(_programs(image, "kubernetes", name, minor=minor.minor))
    return table


def name_of(short: str) -> str:
    """The full name of one of our images, for example `coredns`."""
    for recipe in recipes():
        if recipe.name.rpartition(":")[0] == f"{PREFIX}/{short}":
            return recipe.name
    raise TestbedError(f"the testbed has no image {short!r}")


def for_tenants() -> set[str]:
    """The names of the images that tenants' control planes consist of."""
    return {
        recipe.name for recipe in recipes() if recipe.group in ("etcd", "coredns", "kubernetes")
    }


def build(progress: Progress) -> list[Image]:
    """Make all images of the table; quick when their layers are in the cache."""
    base = debian.root(progress)
    with progress.step("images") as step:
        made = []
        for recipe in recipes():
            step.detail(recipe.name)
            made.append(recipe.make(base))
        return made


def _programs(image: str, group: str, *names: str, minor: str | None = None) -> Recipe:
    def make(base: Path) -> Image:
        layers = [debian.busybox_layer(base)]
        layers += [_program_layer(name, binaries.path(name, minor)) for name in names]
        return oci.image(image, layers, entrypoint=[f"/usr/local/bin/{names[0]}"])

    return Recipe(image, group, make)


def _program_layer(name: str, path: Path) -> Blob:
    entries = [
        Entry("usr"),
        Entry("usr/local"),
        Entry("usr/local/bin"),
        Entry(f"usr/local/bin/{name}", source=path),
    ]
    return oci.layer(oci.key("program", name, oci.file_key(path)), lambda: entries)


def _pause(base: Path) -> Image:
    layers = [debian.busybox_layer(base)]
    return oci.image(PAUSE, layers, entrypoint=["/bin/sleep", "2147483647"])


def _busybox(base: Path) -> Image:
    return oci.image(BUSYBOX, [debian.busybox_layer(base)], entrypoint=[], command=["sh"], user="")


def _python(base: Path) -> Image:
    return oci.image(PYTHON, [debian.layer(base)], entrypoint=[], command=["python3"], user="")
