"""containerd's folder with all stable images, made once and linked to every node.

Layers and blobs are never written again, so a node gets hard links to them. Only the databases are
real copies. The key is the set of images and containerd's version.

Hazard: a database must be copied and never linked. containerd writes it in place, so a database
shared by all nodes would be corrupt at once.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from tools.testbed import cache, versions
from tools.testbed.artifacts import binaries, oci
from tools.testbed.artifacts.oci import Image
from tools.testbed.commands import TIED, run
from tools.testbed.errors import TestbedError
from tools.testbed.progress import StepPrinter

_KEPT = 2
# The folder is made by a containerd of its own, alone with its mounts and processes.
_ALONE = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]

_CONFIG = """\
version = 3
root = "{root}"
state = "{state}"
disabled_plugins = ["io.containerd.cri.v1.runtime", "io.containerd.grpc.v1.cri", \
"io.containerd.nri.v1.nri", "io.containerd.internal.v1.opt"]
[grpc]
address = "{state}/s"
"""


def prepare(images: Sequence[Image], progress: StepPrinter) -> Path:
    """Return the folder for a set of images, made if missing."""
    names = sorted(f"{image.name}@{image.manifest.digest}" for image in images)
    key = oci.key(versions.module_key("containerd"), *names)[:16]
    entry = cache.root() / "content" / key
    if entry.exists():
        os.utime(entry)
        return entry
    with progress.step("import images (once)"), cache.locked("content"):
        if not entry.exists():
            with cache.making(entry) as folder:
                _fill(images, folder)
            _remove_old(entry.parent)
    return entry


def _remove_old(folder: Path) -> None:
    """Keep the newest folders, because another checkout may use one. Clusters have own links."""
    for old in sorted(folder.iterdir(), key=lambda entry: entry.stat().st_mtime)[:-_KEPT]:
        cache.remove(old)


def give(entry: Path, target: Path) -> None:
    """Create a node's own copy."""
    cache.link_tree(entry, target)
    for database in target.glob("**/*.db"):
        scratch = database.with_suffix(".copy")
        shutil.copyfile(database, scratch)
        scratch.rename(database)


def _fill(images: Sequence[Image], folder: Path) -> None:
    state = cache.folder("content-state")
    cache.remove(state)
    state.mkdir()
    config = state / "config.toml"
    config.write_text(_CONFIG.format(root=folder, state=state))
    with (state / "log").open("wb") as log:
        server = subprocess.Popen(
            [*TIED, *_ALONE, str(binaries.path("containerd")), "--config", str(config)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
    try:
        _wait(state / "s", server, state / "log")
        _import(images, state)
    finally:
        server.send_signal(signal.SIGKILL)
        server.wait()
    cache.remove(state)


def _import(images: Sequence[Image], state: Path) -> None:
    ctr = [str(binaries.path("ctr")), "--address", str(state / "s"), "--namespace", "k8s.io"]
    with subprocess.Popen(
        [*ctr, "images", "import", "--local", "--no-unpack=false", "-"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    ) as importer:
        assert importer.stdin is not None
        assert importer.stdout is not None
        try:
            oci.write_archive(images, importer.stdin)
            importer.stdin.close()
        except BrokenPipeError:
            pass  # its own message has more details
        output = importer.stdout.read().decode(errors="replace")
    if importer.returncode != 0:
        raise TestbedError(f"importing images into containerd failed: {output[-600:]}")
    # The CRI plugin puts this label on its images. Without it, the images are seen only after
    # the plugin's next scan.
    for image in images:
        run([*ctr, "images", "label", image.name, "io.cri-containerd.image=managed"])


def _wait(socket: Path, server: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + 30
    while not socket.exists():
        if server.poll() is not None or time.monotonic() > deadline:
            raise TestbedError(f"containerd did not start: {log.read_text()[-600:]}")
        time.sleep(0.02)
