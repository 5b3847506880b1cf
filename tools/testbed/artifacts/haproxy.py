"""HAProxy of the API proxy: Debian's package, as program for tests and as image.

Nothing is installed on the machine. The package is in a Debian root of its own, and the image has
only HAProxy and the libraries that it loads.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from tools.testbed.artifacts import debian, images, oci
from tools.testbed.artifacts.oci import Image, LayerEntry
from tools.testbed.commands import run
from tools.testbed.progress import StepPrinter

PACKAGES = ("haproxy",)
IMAGE = f"{images.PREFIX}/haproxy:3.0"
"""The release of HAProxy in the Debian suite of `versions.toml`. The chart names the same tag."""
SOFT_STOP = "SIGUSR1"
"""Signal after which HAProxy accepts no connection, and ends when the last one ends."""
_REVISION = 1


def build(progress: StepPrinter) -> Path:
    """Return the root with HAProxy, made if missing."""
    return debian.root_with(PACKAGES, progress, "the HAProxy of the API proxy")


def build_command(base: Path) -> list[str]:
    """Return the command for HAProxy on this machine, with the libraries of its root."""
    loader = _find_loader(base)
    return [str(loader), "--library-path", str(loader.parent), str(base / "usr/sbin/haproxy")]


def build_image(progress: StepPrinter) -> Image:
    """Return the image. Quick if its layers are in the cache."""
    base = build(progress)
    layer = oci.layer(oci.key("haproxy", base.name, _REVISION), lambda: _list_entries(base))
    layers = [debian.busybox_layer(debian.root(progress)), layer]
    return oci.image(IMAGE, layers, entrypoint=["/usr/sbin/haproxy"], stop_signal=SOFT_STOP)


def read_version(base: Path) -> str:
    """Return the version of Debian's package."""
    status = (base / "var/lib/dpkg/status").read_text()
    found = re.search(r"^Package: haproxy$.*?^Version: (\S+)$", status, re.MULTILINE | re.DOTALL)
    return found[1] if found else ""


def _list_entries(base: Path) -> Iterable[LayerEntry]:
    """Yield HAProxy and its libraries. The layer below has the loader and the C library."""
    yield LayerEntry("lib")
    loader = _find_loader(base)
    listed = run([str(loader), "--library-path", str(loader.parent), "--list", _program(base)])
    names = sorted(set(re.findall(r"=> (\S+) \(0x", listed)))
    for path in map(Path, names):
        if not re.match(r"(libc|ld-linux.*)\.so\.", path.name):
            yield LayerEntry(f"lib/{path.name}", source=path.resolve())
    yield LayerEntry("usr")
    yield LayerEntry("usr/sbin")
    yield LayerEntry("usr/sbin/haproxy", source=base / "usr/sbin/haproxy")


def _find_loader(base: Path) -> Path:
    return next(base.glob("usr/lib/*-linux-gnu/ld-linux-*.so.*"))


def _program(base: Path) -> str:
    return str(base / "usr/sbin/haproxy")
