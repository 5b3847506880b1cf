"""Which images there are and what is in them.

Hazard: a name without a registry means docker.io to Kubernetes; the table spells names in full.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from tests.testbed import binaries, oci, versions
from tests.testbed.errors import TestbedError
from tests.testbed.oci import Blob, Entry, Image
from tests.testbed.progress import Progress

PREFIX = "registry.local/virtual-cluster"
PAUSE = f"{PREFIX}/pause:1"
BUSYBOX = "docker.io/library/busybox:latest"

_PASSWD = b"root:x:0:0:root:/:/bin/sh\nnonroot:x:65532:65532:nonroot:/:/bin/sh\n"
_GROUP = b"root:x:0:\nnonroot:x:65532:\n"


@dataclass(frozen=True, slots=True)
class Recipe:
    """How one image is made; `group` is what `build` is told."""

    name: str
    group: str
    programs: tuple[tuple[str, str | None], ...]
    make: Callable[[str], Image]


def recipes() -> list[Recipe]:
    """All images that change only with the pinned versions."""
    etcd = versions.module_version("etcd", "go.etcd.io/etcd/server/v3")
    coredns = versions.module_version("coredns", "github.com/coredns/coredns")
    provisioner = versions.module_version("localpath", "github.com/rancher/local-path-provisioner")
    table = [
        Recipe(PAUSE, "base", (), _pause),
        Recipe(BUSYBOX, "base", (), _busybox),
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


def build(progress: Progress) -> list[Image]:
    """Make all images of the table; quick when their layers are in the cache."""
    with progress.step("images") as step:
        made = []
        for recipe in recipes():
            step.detail(recipe.name)
            made.append(recipe.make(recipe.name))
        return made


def _programs(image: str, group: str, *names: str, minor: str | None = None) -> Recipe:
    def make(name: str) -> Image:
        layers = [_busybox_layer()]
        for program in names:
            layers.append(_program_layer(program, binaries.path(program, minor)))
        return oci.image(name, layers, entrypoint=[f"/usr/local/bin/{names[0]}"])

    return Recipe(image, group, tuple((name, minor) for name in names), make)


def _program_layer(name: str, path: Path) -> Blob:
    entries = [
        Entry("usr"),
        Entry("usr/local"),
        Entry("usr/local/bin"),
        Entry(f"usr/local/bin/{name}", source=path),
    ]
    return oci.layer(oci.key("program", name, oci.file_key(path)), lambda: entries)


def _pause(name: str) -> Image:
    return oci.image(name, [_busybox_layer()], entrypoint=["/bin/sleep", "2147483647"])


def _busybox(name: str) -> Image:
    return oci.image(name, [_busybox_layer()], entrypoint=["sh"], user="")


def _busybox_layer() -> Blob:
    found = shutil.which("busybox", path="/bin:/usr/bin")
    if found is None:
        raise TestbedError("busybox is missing; run `apt-get install busybox-static`")
    path = Path(found)

    def entries() -> Iterable[Entry]:
        from tests.testbed.commands import run

        yield Entry("bin")
        yield Entry("bin/busybox", source=path)
        for applet in run([found, "--list"]).split():
            if applet != "busybox":
                yield Entry(f"bin/{applet}", link="busybox")
        yield Entry("etc")
        yield Entry("etc/passwd", 0o644, content=_PASSWD)
        yield Entry("etc/group", 0o644, content=_GROUP)
        yield Entry("tmp", 0o1777)
        yield Entry("usr")
        yield Entry("usr/bin")
        yield Entry("usr/bin/env", link="../../bin/busybox")

    return oci.layer(oci.key("busybox", oci.file_key(path), 1), entries)
