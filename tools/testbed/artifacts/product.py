"""Images of our three components, made from the working tree.

Each image has three layers: the Debian root with Python, the libraries at the versions of
requirements.lock, and our code. A change of code renews only the last layer. The tag is the digest
of the content, so that a new image leads to a new pod.

Hazard: PACKAGES must have every package that a component imports. The component crashes at its
start without one.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import re
import shutil
import sys
import tarfile
import time
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from tools.testbed import cache, versions
from tools.testbed.artifacts import debian, images, oci, prebuilt
from tools.testbed.artifacts.oci import Blob, Image, LayerEntry
from tools.testbed.commands import run
from tools.testbed.errors import TestbedError
from tools.testbed.progress import StepPrinter

REPOSITORY = Path(__file__).resolve().parents[3]
_SITE_SECONDS = 7 * 24 * 3600.0
"""Seconds after its last use until a folder of libraries is removed."""
_SHARED = ("tenancy", "kubeio", "telemetry")


@dataclass(frozen=True, slots=True)
class Product:
    """A component: its image, its module, its extra in pyproject.toml and its packages."""

    image: str
    module: str
    extra: str
    packages: tuple[str, ...]


PRODUCTS = (
    Product("vc-manager", "vcmanager", "manager", (*_SHARED, "vcmanager", "clusterversions")),
    Product("vc-syncer", "syncer", "syncer", (*_SHARED, "syncer")),
    Product("vn-agent", "vnagent", "agent", (*_SHARED, "vnagent")),
)


def build(progress: StepPrinter) -> list[Image]:
    """Build the three images, all with the same tag."""
    base = debian.root(progress)
    pinned = libraries(base, progress)
    with progress.step("images of our components"):
        contents = {product: _code_key(product) for product in PRODUCTS}
        stack = [blob.digest for blobs in pinned.values() for blob in blobs]
        tag = f"dev-{oci.key(*stack, *contents.values())[:12]}"
        return [
            oci.image(
                f"{images.PREFIX}/{product.image}:{tag}",
                [*pinned[product.image], _code_layer(base, product, contents[product])],
                entrypoint=["/usr/bin/python3", "-m", product.module],
            )
            for product in PRODUCTS
        ]


def libraries(base: Path, progress: StepPrinter) -> dict[str, list[Blob]]:
    """Return the layers before our code, per image. They change with requirements.lock only."""
    found = {}
    for product in PRODUCTS:
        requirements = _requirements(product.extra)
        lock = (REPOSITORY / "requirements.lock").read_bytes()
        inputs = oci.key("libraries", base.name, *requirements, hashlib.sha256(lock).hexdigest(), 1)
        if not oci.is_known(inputs):
            prebuilt.refuse(f"the libraries of {product.image}")
            with progress.step(f"libraries of {product.image} (once)"):
                _libraries_layer(base, inputs, requirements)
        found[product.image] = [
            debian.layer(base),
            _libraries_layer(base, inputs, requirements),
        ]
    return found


def site(base: Path, progress: StepPrinter) -> Path:
    """Return the folder with our version and the libraries of all images, made if missing."""
    blobs = [pinned[-1] for pinned in libraries(base, progress).values()]
    folder = cache.root() / "sites"
    entry = folder / oci.key(*(blob.digest for blob in blobs), version())[:16]
    with cache.locked("sites"):
        if not entry.exists():
            with cache.making(entry) as scratch:
                for blob in blobs:
                    _unpack(blob, scratch)
                _write_metadata(scratch)
        entry.touch()
        for old in set(folder.iterdir()) - {entry}:  # another checkout's may be in use
            if time.time() - old.stat().st_mtime > _SITE_SECONDS:
                cache.remove(old)
    return entry


def _unpack(layer: Blob, folder: Path) -> None:
    """Unpack a layer's libraries into a folder. Existing files stay."""
    prefix = _site().lstrip("/") + "/"
    with tarfile.open(layer.path) as archive:
        for member in archive:
            member.name = member.name.removeprefix(prefix)
            if not prefix.startswith(member.name) and not (folder / member.name).is_file():
                archive.extract(member, folder, filter="data")


def images_below(base: Path, progress: StepPrinter) -> list[Image]:
    """Return the same layers as images. Nodes unpack them before our code changes."""
    return [
        oci.image(f"{images.PREFIX}/{name}:libraries", blobs, entrypoint=["/usr/bin/python3"])
        for name, blobs in libraries(base, progress).items()
    ]


def stable_images(progress: StepPrinter) -> list[Image]:
    """Return the images that depend on the pinned versions only.

    Every node has them from the start.
    """
    return [*images.build(progress), *images_below(debian.root(progress), progress)]


def install(extra: str, target: Path, python: str) -> None:
    """Install the libraries of an extra of pyproject.toml for a minor of Python, as locked."""
    _install(target, _requirements(extra), python)


def _requirements(extra: str) -> list[str]:
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    return [*project["dependencies"], *project["optional-dependencies"][extra]]


def _libraries_layer(base: Path, inputs: str, requirements: list[str]) -> Blob:
    def entries() -> Iterable[LayerEntry]:
        scratch = cache.folder("scratch") / inputs
        cache.remove(scratch)
        try:
            _install(scratch, requirements)
            debian.compile_python(base, scratch, _site())
            yield from _below_site(scratch)
        finally:
            cache.remove(scratch)

    return oci.layer(inputs, entries)


def _install(target: Path, requirements: list[str], python: str | None = None) -> None:
    """Install wheels for a minor of Python, and check them against the lock file's digests.

    Without a minor they are for the Python of the images.
    """
    lock = (REPOSITORY / "requirements.lock").read_text()
    constraints = target.with_suffix(".constraints")
    pins = re.findall(r"^([A-Za-z0-9._-]+==[^\s;\\]+)", lock, re.MULTILINE)
    cache.write_atomic(constraints, "\n".join(pins))
    report = target.with_suffix(".report")
    machine = {"amd64": "x86_64", "arm64": "aarch64"}[oci.ARCHITECTURE]
    platforms = [f"manylinux_2_{minor}_{machine}" for minor in range(34, 16, -1)]
    run(
        [
            *(*_pip(), "install", "--quiet", "--disable-pip-version-check"),
            *("--target", str(target), "--constraint", str(constraints), "--report", str(report)),
            *("--only-binary", ":all:", "--implementation", "cp", "--no-compile"),
            *("--python-version", python or versions.load().base.python, "--ignore-installed"),
            *(word for name in platforms for word in ("--platform", name)),
            *("--platform", f"manylinux2014_{machine}"),
            *requirements,
        ]
    )
    known = set(re.findall(r"--hash=sha256:([0-9a-f]{64})", lock))
    for item in json.loads(report.read_text())["install"]:
        digest = item["download_info"]["archive_info"]["hashes"]["sha256"]
        if digest not in known:
            name = f"{item['metadata']['name']} {item['metadata']['version']}"
            raise TestbedError(
                f"the wheel of {name} is not in requirements.lock. Renew the lock file"
            )
    constraints.unlink()
    report.unlink()
    for unused in ("bin", "__pycache__"):
        cache.remove(target / unused)


def _pip() -> list[str]:
    """Return the command of this environment's pip, or of the base Python's.

    Raises TestbedError.
    """
    if importlib.util.find_spec("pip") is not None:
        return [sys.executable, "-m", "pip"]
    bare = Path(sys.base_prefix) / "bin" / "python3"
    if run([str(bare), "-c", "import pip; print('yes')"], check=False).strip() == "yes":
        return [str(bare), "-m", "pip"]
    raise TestbedError("pip is missing in this Python environment. Recreate it with `make setup`")


def _code_files(product: Product) -> list[Path]:
    folders = [REPOSITORY / package for package in product.packages]
    files = [path for folder in folders for path in folder.rglob("*") if path.is_file()]
    return sorted(path for path in files if "__pycache__" not in path.parts)


def _code_key(product: Product) -> str:
    digest = hashlib.sha256()
    for path in _code_files(product):
        digest.update(f"{path.relative_to(REPOSITORY)}\0{path.stat().st_mode & 0o100}\0".encode())
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


def _code_layer(base: Path, product: Product, content: str) -> Blob:
    inputs = oci.key("code", base.name, product.image, content, version(), 1)

    def entries() -> Iterable[LayerEntry]:
        scratch = cache.folder("scratch") / inputs
        cache.remove(scratch)
        try:
            for path in _code_files(product):
                target = scratch / path.relative_to(REPOSITORY)
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(path, target)
                target.chmod(0o755 if path.stat().st_mode & 0o100 else 0o644)
            _write_metadata(scratch)
            debian.compile_python(base, scratch, _site())
            yield from _below_site(scratch)
        finally:
            cache.remove(scratch)

    return oci.layer(inputs, entries)


def _write_metadata(folder: Path) -> None:
    metadata = folder / f"virtual_cluster-{version()}.dist-info" / "METADATA"
    cache.write_atomic(
        metadata, f"Metadata-Version: 2.1\nName: virtual-cluster\nVersion: {version()}\n"
    )


def _below_site(folder: Path) -> Iterable[LayerEntry]:
    parts = Path(_site().lstrip("/")).parts
    for depth in range(1, len(parts) + 1):
        yield LayerEntry("/".join(parts[:depth]))
    yield from oci.tree(folder, "/".join(parts) + "/")


def _site() -> str:
    """Return the folder in which Debian's Python searches for packages not installed by Debian."""
    return f"/usr/local/lib/python{versions.load().base.python}/dist-packages"


def version() -> str:
    """Return the version in pyproject.toml, which is also the chart's."""
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    return str(project["version"])
