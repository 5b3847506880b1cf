"""Debian root of our images: made by debootstrap, then stripped of unused files.

Owns the folder `debian/<key>` of the cache, and the compilation of Python files with that root's
Python.

Hazard: Python files must be compiled without the check of the source's time. Layers have no times,
so a compiled file with that check is never used.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path

from tools.testbed import cache, versions
from tools.testbed.artifacts import oci, prebuilt
from tools.testbed.artifacts.oci import Blob, LayerEntry
from tools.testbed.commands import run
from tools.testbed.progress import StepPrinter

# In own namespaces for mounts and processes, so that a killed run leaves neither.
ALONE = ("unshare", "--mount", "--pid", "--fork", "--kill-child")

_STRIPPED = (
    "boot",
    "etc/hostname",
    "etc/machine-id",
    "etc/resolv.conf",
    "usr/bin/perl*",
    "usr/lib/apt",
    "usr/lib/*/gconv",
    "usr/lib/*/libapt-*",
    "usr/lib/*/libdb-*",
    "usr/lib/*/perl-base",
    "usr/sbin/pam*",
    "usr/share/bash-completion",
    "usr/share/bug",
    "usr/share/doc",
    "usr/share/i18n",
    "usr/share/info",
    "usr/share/lintian",
    "usr/share/locale",
    "usr/share/man",
    "usr/share/perl*",
    "usr/share/zoneinfo/right",
    "var/backups/*",
    "var/cache/*",
    "var/lib/apt",
    "var/lib/dpkg/*-old",
    "var/lib/dpkg/info",
    "var/log/*",
)
_REVISION = 3  # number of this module's changes to the root

_BUSYBOX_LIBRARIES = ("libc.so.6", "libresolv.so.2")


def root(progress: StepPrinter) -> Path:
    """Return the unpacked root with Python, made if missing."""
    return root_with(versions.load().base.packages, progress, "the images")


def known_root() -> Path | None:
    """Return the same root, or None if it has not been made."""
    entry = _entry(versions.load().base.packages)
    return entry if entry.exists() else None


def root_with(packages: Sequence[str], progress: StepPrinter, purpose: str) -> Path:
    """Return an unpacked root with these packages besides the minimal ones, made if missing."""
    base = versions.load().base
    entry = _entry(packages)
    if entry.exists():
        return entry
    prebuilt.refuse(f"Debian {base.suite} for {purpose}")
    with progress.step(f"Debian {base.suite} for {purpose} (once)"), cache.locked("debian"):
        if not entry.exists():
            with cache.making(entry) as scratch:
                command = ["debootstrap", "--variant=minbase", f"--include={','.join(packages)}"]
                run([*ALONE, *command, base.suite, str(scratch)])
                _strip(scratch)
                library = f"usr/lib/python{base.python}"
                if (scratch / library).is_dir():
                    compile_python(scratch, scratch / library, f"/{library}")
    return entry


def _entry(packages: Sequence[str]) -> Path:
    key = oci.key("debian", versions.load().base.suite, *packages, _REVISION)[:16]
    return cache.root() / "debian" / key


def python(base: Path) -> list[str]:
    """Return the command for a root's Python on this machine, without a container.

    The root's own loader finds the root's own C library, which differs from this machine's.
    """
    libraries = next(base.glob("usr/lib/*-linux-gnu"))
    return [
        *("env", f"PYTHONHOME={base / 'usr'}", str(next(libraries.glob("ld-linux-*.so.*")))),
        *("--argv0", str(base / "usr/bin/python3"), "--library-path", str(libraries)),
        str(base / f"usr/bin/python{versions.load().base.python}"),
    ]


def compile_python(base: Path, folder: Path, inside: str) -> None:
    """Compile Python files, later installed at `inside`, with the Python of a root."""
    python = f"/usr/bin/python{versions.load().base.python}"
    script = 'mount --bind "$1" "$2/mnt" && exec chroot "$2" "$3" -m compileall -q -f \
--invalidation-mode unchecked-hash -s /mnt -p "$4" /mnt'
    run([*ALONE, "sh", "-c", script, "sh", str(folder), str(base), python, inside])


def layer(base: Path) -> Blob:
    """Return the whole root as a layer, with an account for programs that are not root."""

    def entries() -> Iterable[LayerEntry]:
        for entry in oci.tree(base):
            if entry.name not in ("etc/passwd", "etc/group"):
                yield entry
        yield from accounts((base / "etc/passwd").read_bytes(), (base / "etc/group").read_bytes())

    return oci.layer(oci.key("debian-layer", base.name), entries)


def busybox_layer(base: Path) -> Blob:
    """Return a layer of the root's busybox, its libraries, and a link for each applet.

    Debian's static busybox is of no use, because it crashes at the lookup of a host name.
    """

    def entries() -> Iterable[LayerEntry]:
        yield LayerEntry("bin")
        yield LayerEntry("bin/busybox", source=base / "usr/bin/busybox")
        for applet in run(["chroot", str(base), "/usr/bin/busybox", "--list"]).split():
            if applet != "busybox":
                yield LayerEntry(f"bin/{applet}", link="busybox")
        yield LayerEntry("etc")
        yield from accounts(b"root:x:0:0:root:/:/bin/sh\n", b"root:x:0:\n")
        yield LayerEntry("lib")
        yield LayerEntry("lib64")
        loader = next(base.glob("usr/lib/*-linux-gnu/ld-linux-*.so.*"))
        yield LayerEntry(
            f"{'lib64' if 'x86-64' in loader.name else 'lib'}/{loader.name}", source=loader
        )
        for name in _BUSYBOX_LIBRARIES:
            found = next((base / "usr/lib").glob(f"*-linux-gnu/{name}"))
            yield LayerEntry(f"lib/{name}", source=found)
        yield LayerEntry("tmp", 0o1777)
        yield LayerEntry("usr")
        yield LayerEntry("usr/bin")
        yield LayerEntry("usr/bin/env", link="../../bin/busybox")

    return oci.layer(oci.key("busybox", base.name, 2), entries)


def accounts(passwd: bytes, group: bytes) -> Iterable[LayerEntry]:
    """Return the account files with our unprivileged user added."""
    passwd += b"nonroot:x:65532:65532:nonroot:/:/sbin/nologin\n"
    yield LayerEntry("etc/passwd", 0o644, content=passwd)
    yield LayerEntry("etc/group", 0o644, content=group + b"nonroot:x:65532:\n")


def _strip(folder: Path) -> None:
    for pattern in _STRIPPED:
        for path in folder.glob(pattern):
            cache.remove(path)
    for path in folder.rglob("__pycache__"):
        shutil.rmtree(path)
