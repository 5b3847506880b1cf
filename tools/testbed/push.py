"""Push of our images to the user's own registry.

Hazard: this module must never handle the registry's credentials, which are the user's. The pusher
reads them from docker's own configuration.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

from tools.testbed import cache
from tools.testbed.artifacts import binaries, haproxy, images, oci, product
from tools.testbed.artifacts.oci import Image
from tools.testbed.errors import TestbedError
from tools.testbed.progress import StepPrinter

COMPONENTS = tuple(one.image for one in product.PRODUCTS)


def push(destination: str, progress: StepPrinter) -> list[str]:
    """Push all images to `destination` (REGISTRY/PREFIX). Returns their names in it."""
    prefix = destination.rstrip("/")
    if "/" not in prefix or "://" in prefix:
        raise TestbedError(
            f"{destination!r} is not of the form REGISTRY/PREFIX, for example "
            "registry.example.com/virtual-cluster"
        )
    binaries.build(binaries.programs(["crane", *images.FOR_TENANTS]), progress)
    pushed = []
    for image, tags in _wanted(progress):
        name = image.repository.rpartition("/")[2]
        for tag in tags:
            reference = f"{prefix}/{name}:{tag}"
            with progress.step(f"push {reference}"):
                _push(image, reference)
            pushed.append(reference)
    return pushed


def _wanted(progress: StepPrinter) -> list[tuple[Image, list[str]]]:
    """Return the images for the chart: our components, control planes of tenants, and HAProxy."""
    tenant = [*images.build_for_tenants(progress), haproxy.build_image(progress)]
    ours = product.build(progress)
    return [(image, [image.tag]) for image in tenant] + [
        (image, [image.tag, product.version()]) for image in ours
    ]


def _push(image: Image, reference: str) -> None:
    layout = cache.folder("scratch") / f"push-{os.getpid()}"
    cache.remove(layout)
    try:
        write_layout(image, layout)
        result = subprocess.run(
            [str(binaries.path("crane")), "push", str(layout), reference],
            capture_output=True,
            text=True,
            check=False,
        )
        if result.returncode != 0:
            detail = result.stderr.strip().splitlines()[-1:] or ["no message"]
            raise TestbedError(f"pushing {reference} failed: {detail[0]}")
    finally:
        cache.remove(layout)


def write_layout(image: Image, folder: Path) -> None:
    """Write an image as an OCI layout folder."""
    blobs = folder / "blobs" / "sha256"
    blobs.mkdir(parents=True)
    for blob in (image.manifest, *image.blobs):
        target = blobs / blob.path.name
        if not target.exists():
            try:
                os.link(blob.path, target)
            except OSError:  # another file system
                shutil.copyfile(blob.path, target)
    (folder / "oci-layout").write_text('{"imageLayoutVersion":"1.0.0"}')
    (folder / "index.json").write_text(json.dumps(oci.index([image])))
