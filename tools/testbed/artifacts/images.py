"""Table of the images and their content.

Hazard: the table must have full names. To Kubernetes, a name without a registry stands for
docker.io.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from tools.testbed import versions
from tools.testbed.artifacts import binaries, debian, oci
from tools.testbed.artifacts.oci import Blob, Image, LayerEntry
from tools.testbed.errors import TestbedError
from tools.testbed.progress import StepPrinter

PREFIX = "registry.local/virtual-cluster"
PAUSE = f"{PREFIX}/pause:1"
BUSYBOX = "docker.io/library/busybox:latest"
PYTHON = "docker.io/library/python:3-slim"
FURTHER = ("metrics-server", "kubernetes")
"""Groups of programs with images that only some tenants need."""
FOR_TENANTS = ("etcd", "etcdutl", "coredns", *FURTHER)
"""Groups of programs in tenants' control planes."""


@dataclass(frozen=True, slots=True)
class ImageRecipe:
    """The recipe of one image from the unpacked Debian root. `group` is an argument of `build`."""

    name: str
    group: str
    make: Callable[[Path], Image]
    needs: tuple[tuple[str, str | None], ...] = ()
    """Programs, with their Kubernetes minors, that only some tenants need. Empty for every
    cluster."""


def recipes() -> list[ImageRecipe]:
    """Return the recipes of all images that depend on the pinned versions only."""
    etcd = versions.module_version("etcd", "go.etcd.io/etcd/server/v3")
    coredns = versions.module_version("coredns", "github.com/coredns/coredns")
    metrics = versions.module_version("metrics-server", "sigs.k8s.io/metrics-server")
    provisioner = versions.module_version("localpath", "github.com/rancher/local-path-provisioner")
    table = [
        ImageRecipe(PAUSE, "base", _pause),
        ImageRecipe(BUSYBOX, "base", _busybox),
        ImageRecipe(PYTHON, "base", _python),
        of_programs(f"{PREFIX}/etcd:{etcd}", "etcd", "etcd", "etcdctl", "etcdutl"),
        of_programs(f"{PREFIX}/coredns:{coredns}", "coredns", "coredns"),
        replace(
            of_programs(f"{PREFIX}/metrics-server:v{metrics}", "metrics-server", "metrics-server"),
            needs=(("metrics-server", None),),
        ),
        of_programs(
            f"{PREFIX}/local-path-provisioner:{provisioner}", "localpath", "local-path-provisioner"
        ),
    ]
    for minor in versions.load().kubernetes:
        for name in binaries.TENANT:
            image = f"{PREFIX}/{name}:v{minor.version}"
            table.append(of_programs(image, "kubernetes", name, minor=minor.minor))
    return table


def name_of(short: str) -> str:
    """Return the full name of one of our images, for example of `coredns`."""
    for recipe in recipes():
        if recipe.name.rpartition(":")[0] == f"{PREFIX}/{short}":
            return recipe.name
    raise TestbedError(f"the testbed has no image {short!r}")


def for_tenants() -> list[ImageRecipe]:
    """Return the recipes of the images in tenants' control planes."""
    return [recipe for recipe in recipes() if recipe.group in FOR_TENANTS]


def build(progress: StepPrinter) -> list[Image]:
    """Build the images of every cluster. Quick if their layers are in the cache."""
    return _build([recipe for recipe in recipes() if not recipe.needs], progress, "images")


def build_for_tenants(progress: StepPrinter) -> list[Image]:
    """Build the images in tenants' control planes. The programs of FOR_TENANTS must be built."""
    return _build(for_tenants(), progress, "images of tenants")


def build_further(progress: StepPrinter, *groups: str) -> list[Image]:
    """Build the images that only some tenants need: of a further minor, or with metrics.

    The programs of the named groups must be built. Other images are built if their programs are.
    """
    wanted = [
        recipe
        for recipe in recipes()
        if recipe.needs
        and (recipe.group in groups or all(binaries.is_built(*need) for need in recipe.needs))
    ]
    return _build(wanted, progress, "images for some tenants") if wanted else []


def _build(wanted: list[ImageRecipe], progress: StepPrinter, title: str) -> list[Image]:
    base = debian.root(progress)
    with progress.step(title) as step:
        made = []
        for recipe in wanted:
            step.detail(recipe.name)
            made.append(recipe.make(base))
        return made


def of_programs(image: str, group: str, *names: str, minor: str | None = None) -> ImageRecipe:
    """Return the recipe of an image that runs the first of these programs."""

    def make(base: Path) -> Image:
        layers = [debian.busybox_layer(base)]
        layers += [_program_layer(name, binaries.path(name, minor)) for name in names]
        return oci.image(image, layers, entrypoint=[f"/usr/local/bin/{names[0]}"])

    is_further = minor is not None and minor != versions.load().kubernetes[0].minor
    needs = tuple((name, minor) for name in names) if minor is not None and is_further else ()
    return ImageRecipe(image, group, make, needs)


def _program_layer(name: str, path: Path) -> Blob:
    entries = [
        LayerEntry("usr"),
        LayerEntry("usr/local"),
        LayerEntry("usr/local/bin"),
        LayerEntry(f"usr/local/bin/{name}", source=path),
    ]
    return oci.layer(oci.key("program", name, oci.file_key(path)), lambda: entries)


def _pause(base: Path) -> Image:
    layers = [debian.busybox_layer(base)]
    return oci.image(PAUSE, layers, entrypoint=["/bin/sleep", "2147483647"])


def _busybox(base: Path) -> Image:
    return oci.image(BUSYBOX, [debian.busybox_layer(base)], entrypoint=[], command=["sh"], user="")


def _python(base: Path) -> Image:
    return oci.image(PYTHON, [debian.layer(base)], entrypoint=[], command=["python3"], user="")
