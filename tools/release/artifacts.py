"""Build of each file of a release.

Hazard: no file may contain the time of its build, the user, or the path of the checkout. Otherwise
two builds of one commit differ, and a user cannot check a release.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import shutil
import sys
import tarfile
import zipfile
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import yaml

from tools.packages import ROOT
from tools.release import bill_of_materials
from tools.testbed import cache
from tools.testbed.artifacts import binaries, haproxy, images, oci, product
from tools.testbed.artifacts.oci import Image, LayerEntry
from tools.testbed.commands import run
from tools.testbed.progress import StepPrinter

CHART = ROOT / "charts/virtual-cluster"
SUMS = "SHA256SUMS"
BUILT_AT = 1_577_836_800
"""Time in all archives: 2020-01-01. Zip archives have no time before 1980."""
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
"""Minors of Python for which the plugin has libraries. A library with C code fits one minor."""
_LAUNCHER = """\
#!/usr/bin/env python3
\"\"\"kubectl-vc with its libraries, which are beside this file in `lib`.\"\"\"
import sys
from pathlib import Path

minor = f"{sys.version_info.major}.{sys.version_info.minor}"
library = Path(__file__).resolve().parent / "lib"
if not (library / minor).is_dir():
    sys.exit(f"error: kubectl-vc has no libraries for Python {minor}. Use one of PYTHONS")
sys.path[:0] = [str(library), str(library / minor)]
from kubectl_vc.MODULE import main

main()
"""
_PROGRAMS = {  # and their modules
    "kubectl-vc": "app",
    "kubectl_complete-vc": "completion",
}


def build(folder: Path, progress: StepPrinter) -> str:
    """Build all files. Return the checksums, one line per file. Raises TestbedError.

    The folder is replaced after everything was built.
    """
    binaries.build(binaries.programs(["helm", *images.FOR_TENANTS]), progress)
    with cache.making(folder.absolute()) as scratch:
        with progress.step("wheel"):
            wheel = _build_wheel(scratch)
        with progress.step("chart"):
            _build_chart(scratch)
        _build_images(scratch, progress)
        with progress.step("plugin of kubectl"):
            plugin = _build_plugin(scratch, wheel)
        _write_krew_manifest(scratch, plugin)
        bill = bill_of_materials.build(product.version())
        (scratch / "sbom.cdx.json").write_text(json.dumps(bill, indent=1) + "\n")
        sums = "".join(f"{_digest(path)}  {path.name}\n" for path in sorted(scratch.iterdir()))
        (scratch / SUMS).write_text(sums)
    return sums


def _build_wheel(folder: Path) -> Path:
    environment = {**os.environ, "SOURCE_DATE_EPOCH": str(BUILT_AT)}
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    run(command, env=environment, cwd=ROOT)
    (wheel,) = folder.glob("*.whl")
    return wheel


def _build_chart(folder: Path) -> Path:
    """Package the chart, then write the archive again without the times of Helm."""
    home = cache.folder("helm")
    own = {name: str(home) for name in ("HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME")}
    helm = str(binaries.path("helm"))
    run([helm, "package", str(CHART), "--destination", str(folder)], env={**os.environ, **own})
    (archive,) = folder.glob("*.tgz")
    with tarfile.open(archive) as packed:
        members = sorted(packed.getmembers(), key=lambda member: member.name)
        entries = [
            LayerEntry(each.name, mode=0o644, content=_read(packed, each)) for each in members
        ]
    _write_gzip(archive, entries)
    return archive


def _read(archive: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    data = archive.extractfile(member)
    return b"" if data is None else data.read()


def _build_images(folder: Path, progress: StepPrinter) -> Path:
    """Write all images that a cluster with tenants needs as one OCI archive."""
    version = product.version()
    ours = [_tag(image, version) for image in product.build(progress)]
    target = folder / f"images-{version}-linux-{oci.ARCHITECTURE}.tar"
    with target.open("wb") as output:
        others = [*images.build_for_tenants(progress), haproxy.build_image(progress)]
        oci.write_archive([*ours, *others], output)
    return target


def _tag(image: Image, tag: str) -> Image:
    return replace(image, name=f"{image.name.rpartition(':')[0]}:{tag}")


def _build_plugin(folder: Path, wheel: Path) -> Path:
    """Write `kubectl-vc`, its completion and all its libraries as one archive."""
    version = product.version()
    scratch = cache.folder("scratch") / f"plugin-{os.getpid()}"
    cache.remove(scratch)
    try:
        library = scratch / "lib"
        for python in PYTHONS:
            product.install("cli", library / python, python)
        with zipfile.ZipFile(wheel) as content:
            content.extractall(library)  # noqa: S202 - built a moment ago from this checkout
        launcher = _LAUNCHER.replace("PYTHONS", ", ".join(PYTHONS))
        for name, module in _PROGRAMS.items():
            program = scratch / name
            program.write_text(launcher.replace("MODULE", module))
            program.chmod(0o755)
        shutil.copyfile(ROOT / "LICENSE", scratch / "LICENSE")
        target = folder / f"kubectl-vc-{version}-linux-{oci.ARCHITECTURE}.tar.gz"
        _write_gzip(target, map(_without_owner, oci.tree(scratch)))
    finally:
        cache.remove(scratch)
    return target


def _without_owner(entry: LayerEntry) -> LayerEntry:
    mode = 0o755 if entry.mode & 0o100 else 0o644
    return replace(entry, uid=0, gid=0, mode=mode)


def _write_gzip(target: Path, entries: Iterable[LayerEntry]) -> None:
    packed = io.BytesIO()
    oci.write_tar(packed, entries)
    target.write_bytes(gzip.compress(packed.getvalue(), mtime=0))


def _write_krew_manifest(folder: Path, plugin: Path) -> None:
    manifest = {
        "apiVersion": "krew.googlecontainertools.github.com/v1alpha2",
        "kind": "Plugin",
        "metadata": {"name": "vc"},
        "spec": {
            "version": f"v{product.version()}",
            "shortDescription": "Manage virtual clusters of many tenants",
            "description": "Creates, upgrades, saves and deletes the control planes of tenants.",
            "caveats": f"The plugin needs Python {PYTHONS[0]} or later in the PATH.",
            "platforms": [
                {
                    "selector": {"matchLabels": {"os": "linux", "arch": oci.ARCHITECTURE}},
                    "uri": plugin.name,
                    "sha256": _digest(plugin),
                    "bin": "kubectl-vc",
                }
            ],
        },
    }
    (folder / "vc.yaml").write_text(yaml.safe_dump(manifest, sort_keys=False))


def _digest(path: Path) -> str:
    with path.open("rb") as data:
        return hashlib.file_digest(data, "sha256").hexdigest()
