"""The folder that the testbed's image registry serves.

Owns the layout of the registry's file store, written directly from the cache by hard links. So
there is no upload, and a missing name is a quick 404.

Hazard: the layout must match the program that reads it (distribution v3). A new major version of it
may need another layout.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from pathlib import Path

from tools.testbed import cache
from tools.testbed.artifacts.oci import Blob, Image


def publish(images: Iterable[Image], store: Path) -> None:
    """Make images available with their own names."""
    root = store / "docker" / "registry" / "v2"
    for image in images:
        for blob in (image.manifest, *image.blobs):
            _link_blob(root, blob)
        repository = root / "repositories" / image.repository
        for blob in image.blobs:
            _link(repository / "_layers", blob)
        manifests = repository / "_manifests"
        _link(manifests / "revisions", image.manifest)
        tag = manifests / "tags" / image.tag
        _link(tag / "index", image.manifest)
        cache.write_atomic(tag / "current" / "link", image.manifest.digest)


def _link(folder: Path, blob: Blob) -> None:
    path = folder / blob.digest.replace(":", "/") / "link"
    if not path.exists():
        cache.write_atomic(path, blob.digest)


def _link_blob(root: Path, blob: Blob) -> None:
    digest = blob.digest.removeprefix("sha256:")
    target = root / "blobs" / "sha256" / digest[:2] / digest / "data"
    if target.exists():
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.link(blob.path, target)
    except OSError:  # another file system
        shutil.copyfile(blob.path, target)
