"""The images that the suite's cases use, under the names that the suite itself lists.

They are made from the suite's own Go module and from Debian packages, because the testbed reaches
no registry. RECIPES has the images of conformance cases. The suite knows more.

Hazard: an image must behave as upstream's, otherwise a case fails because of the image. The control
run on the super cluster shows this: its failures are never a tenant's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tools.testbed import versions
from tools.testbed.artifacts import binaries, debian, oci
from tools.testbed.artifacts.oci import Blob, Image, LayerEntry
from tools.testbed.errors import TestbedError
from tools.testbed.progress import StepPrinter

_PACKAGES = (
    "bind9-dnsutils",
    "ca-certificates",
    "curl",
    "iproute2",
    "netcat-openbsd",
    "nginx",
    "procps",
)
"""One root for all images that need more than busybox, so that a node unpacks it once."""

_NGINX = b"""\
daemon off;
pid /tmp/nginx.pid;
error_log /dev/stderr;
events {}
http {
  access_log /dev/stdout;
  server { listen 80; root /usr/share/nginx/html; }
}
"""
_WELCOME = b"<!DOCTYPE html>\n<title>Welcome to nginx!</title>\n<h1>Welcome to nginx!</h1>\n"


@dataclass(frozen=True, slots=True)
class ImageRoots:
    """Bases of images: the testbed's small root and the one with packages."""

    small: Path
    large: Path
    minor: str
    """Minor of the suite whose programs are in the images."""


def build(listed: Iterable[str], minor: str, progress: StepPrinter) -> list[Image]:
    """Build the images of RECIPES under the names that a minor's suite lists. Quick if they exist.

    Raises TestbedError if the suite no longer lists an image of the table.
    """
    names = sorted(listed)
    wanted = {short: [name for name in names if _short(name) == short] for short in RECIPES}
    gone = [short for short, found in wanted.items() if not found]
    if gone:
        raise TestbedError(
            f"the suite no longer lists an image {gone[0]!r}. Check test/utils/image/manifest.go"
            " of Kubernetes"
        )
    roots = ImageRoots(
        debian.root(progress),
        debian.root_with(_PACKAGES, progress, "the images of the suite"),
        minor,
    )
    with progress.step("images of the suite") as step:
        made = []
        for short, found in wanted.items():
            for name in found:
                step.detail(name)
                made.append(RECIPES[short](name, roots))
        return made


def _short(name: str) -> str:
    """An image's name without registry and tag."""
    return name.partition("/")[2].rpartition(":")[0]


def _agnhost(name: str, roots: ImageRoots) -> Image:
    return oci.image(
        name, _agnhost_layers(roots), entrypoint=["/agnhost"], command=["pause"], user=""
    )


def _nautilus(name: str, roots: ImageRoots) -> Image:
    return _with_html(name, roots, "nautilus")


def _kitten(name: str, roots: ImageRoots) -> Image:
    return _with_html(name, roots, "kitten")


def _with_html(name: str, roots: ImageRoots, short: str) -> Image:
    folder = _source(roots) / "test/images" / short / "html"
    files = [LayerEntry(file.name, 0o644, source=file) for file in sorted(folder.iterdir())]
    # The case of image volumes knows upstream's base by this name (image_volume.go:87).
    release = LayerEntry("etc/os-release", 0o644, content=b'NAME="Alpine Linux"\n')
    layers = [*_agnhost_layers(roots), _layer(short, [LayerEntry("etc"), release, *files])]
    return oci.image(name, layers, entrypoint=["/agnhost"], command=["test-webserver"], user="")


def _busybox(name: str, roots: ImageRoots) -> Image:
    return oci.image(name, _busybox_layers(roots), entrypoint=[], command=["sh"], user="")


def _nonewprivs(name: str, roots: ImageRoots) -> Image:
    program = binaries.path("nonewprivs", roots.minor)
    folders = [LayerEntry("usr"), LayerEntry("usr/local"), LayerEntry("usr/local/bin")]
    entries = [*folders, LayerEntry("usr/local/bin/nnp", 0o6755, source=program)]
    layers = [*_busybox_layers(roots), _layer("nonewprivs", entries)]
    return oci.image(name, layers, entrypoint=[], command=["nnp"], user="")


def _nonroot(name: str, roots: ImageRoots) -> Image:
    return oci.image(name, _busybox_layers(roots), entrypoint=[], command=["sh"], user="1234")


def _pause(name: str, _roots: ImageRoots) -> Image:
    layers = [_layer("pause", [LayerEntry("pause", source=binaries.path("pause"))])]
    return oci.image(name, layers, entrypoint=["/pause"], user="65535:65535")


def _glibc_dns(name: str, roots: ImageRoots) -> Image:
    layers = [debian.layer(roots.large), _coredns_layer()]
    return oci.image(name, layers, entrypoint=[], command=["bash"], user="")


def _nginx(name: str, roots: ImageRoots) -> Image:
    version = name.rpartition(":")[2]  # two images of one name that differ in nothing are one
    entries = [
        LayerEntry("etc"),
        LayerEntry("etc/nginx"),
        LayerEntry("etc/nginx/nginx.conf", 0o644, content=_NGINX),
        LayerEntry("usr"),
        LayerEntry("usr/share"),
        LayerEntry("usr/share/nginx"),
        LayerEntry("usr/share/nginx/html"),
        LayerEntry("usr/share/nginx/html/index.html", 0o644, content=_WELCOME),
        LayerEntry("usr/share/nginx/html/version", 0o644, content=version.encode()),
        LayerEntry("var"),
        LayerEntry("var/log"),
        LayerEntry("var/log/nginx"),
    ]
    layers = [debian.layer(roots.large), _layer(f"nginx-{version}", entries)]
    return oci.image(name, layers, entrypoint=[], command=["nginx"], user="")


def _etcd(name: str, roots: ImageRoots) -> Image:
    folders = [LayerEntry("usr"), LayerEntry("usr/local"), LayerEntry("usr/local/bin")]
    program = LayerEntry("usr/local/bin/etcd", source=binaries.path("etcd"))
    layers = [debian.busybox_layer(roots.small), _layer("etcd", [*folders, program])]
    return oci.image(name, layers, entrypoint=["/usr/local/bin/etcd"], user="")


def _sample_apiserver(name: str, roots: ImageRoots) -> Image:
    program = LayerEntry("sample-apiserver", source=binaries.path("sample-apiserver", roots.minor))
    layers = [debian.busybox_layer(roots.small), _layer("sample-apiserver", [program])]
    return oci.image(name, layers, entrypoint=["/sample-apiserver"], user="")


RECIPES: dict[str, Callable[[str, ImageRoots], Image]] = {
    "e2e-test-images/agnhost": _agnhost,
    "e2e-test-images/busybox": _busybox,
    "e2e-test-images/glibc-dns-testing": _glibc_dns,
    "e2e-test-images/kitten": _kitten,
    "e2e-test-images/nautilus": _nautilus,
    "e2e-test-images/nginx": _nginx,
    "e2e-test-images/nonewprivs": _nonewprivs,
    "e2e-test-images/nonroot": _nonroot,
    "e2e-test-images/sample-apiserver": _sample_apiserver,
    "etcd": _etcd,
    "pause": _pause,
}
"""How each image is made, by its name without registry and tag."""


def _agnhost_layers(roots: ImageRoots) -> list[Blob]:
    large = roots.large
    passwd = (
        large / "etc/passwd"
    ).read_bytes() + b"user-defined-in-image:x:1000:1000::/home:/bin/sh\n"
    group = (large / "etc/group").read_bytes() + (
        b"user-defined-in-image:x:1000:\ngroup-defined-in-image:x:50000:user-defined-in-image\n"
    )
    porter = _source(roots) / "test/images/agnhost/porter"
    entries = [
        LayerEntry("agnhost", source=binaries.path("agnhost", roots.minor)),
        LayerEntry("agnhost-2", link="agnhost"),
        LayerEntry("etc"),
        *debian.accounts(passwd, group),
        LayerEntry("localhost.crt", 0o644, source=porter / "localhost.crt"),
        LayerEntry("localhost.key", 0o644, source=porter / "localhost.key"),
        LayerEntry("uploads"),
    ]
    return [debian.layer(large), _coredns_layer(), _layer("agnhost", entries)]


def _busybox_layers(roots: ImageRoots) -> list[Blob]:
    # busybox's own shell drops variables with invalid names, and cases look for those with
    # `sh -c env`; others look for its very words with /bin/sh. PATH finds the first one.
    small = roots.small
    library = next(small.glob("usr/lib/*-linux-gnu/libtinfo.so.6"))
    entries = [
        LayerEntry("lib"),
        LayerEntry("lib/libtinfo.so.6", source=library),
        LayerEntry("usr"),
        LayerEntry("usr/local"),
        LayerEntry("usr/local/bin"),
        LayerEntry("usr/local/bin/sh", source=small / "usr/bin/bash"),
    ]
    return [debian.busybox_layer(small), _layer("busybox-shell", entries)]


def _coredns_layer() -> Blob:
    return _layer("coredns", [LayerEntry("coredns", source=binaries.path("coredns"))])


def _layer(what: str, entries: Sequence[LayerEntry]) -> Blob:
    """A layer, known by what is in it: files on disk by size and time."""
    inputs = [
        f"{entry.name}:{entry.mode}:{entry.link}:{entry.content!r}:"
        f"{oci.file_key(entry.source) if entry.source else ''}"
        for entry in entries
    ]
    return oci.layer(oci.key("conformance", what, *inputs), lambda: entries)


def _source(roots: ImageRoots) -> Path:
    return binaries.source(versions.load().minor(roots.minor).suite, "k8s.io/kubernetes")
