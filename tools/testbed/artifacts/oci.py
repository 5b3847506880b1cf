"""Container images without a builder: a layer is a tar, an image is two JSON documents.

Owns the content-addressed store `oci/blobs/sha256` of the cache. Owns the notes `oci/layers/<key>`,
which map inputs to their blob.

Hazard: the same inputs must lead to the same bytes, so times and owners are fixed and names sorted.
Otherwise every start imports everything again.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import platform
import tarfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from tools.testbed import cache

LAYER = "application/vnd.oci.image.layer.v1.tar"
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
INDEX = "application/vnd.oci.image.index.v1+json"
CONFIG = "application/vnd.oci.image.config.v1+json"
ARCHITECTURE = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), "amd64")


@dataclass(frozen=True, slots=True)
class Blob:
    """A blob in the store."""

    digest: str
    size: int

    @property
    def path(self) -> Path:
        return blob_path(self.digest)


@dataclass(frozen=True, slots=True)
class Image:
    """An image in the store: its full name with tag, its manifest, and everything below it."""

    name: str
    manifest: Blob
    blobs: tuple[Blob, ...]

    @property
    def repository(self) -> str:
        """Return the name without host and tag, as a registry spells it."""
        return self.name.partition("/")[2].rpartition(":")[0]

    @property
    def tag(self) -> str:
        return self.name.rpartition(":")[2]


@dataclass(frozen=True, slots=True)
class LayerEntry:
    """One member of a layer: a file from disk or from memory, a folder, or a symbolic link."""

    name: str
    mode: int = 0o755
    source: Path | None = None
    content: bytes | None = None
    link: str | None = None
    uid: int = 0
    gid: int = 0


def blob_path(digest: str) -> Path:
    """Return the path of a blob in the store."""
    return cache.root() / "oci" / "blobs" / "sha256" / digest.removeprefix("sha256:")


def key(*inputs: object) -> str:
    """Return a short name for inputs."""
    return hashlib.sha256(json.dumps([str(item) for item in inputs]).encode()).hexdigest()[:32]


def file_key(path: Path) -> str:
    """Return the cache key of a program. Its files are replaced and never edited."""
    status = path.stat()
    return f"{path}:{status.st_size}:{status.st_mtime_ns}"


def layer(inputs: str, entries: Callable[[], Iterable[LayerEntry]]) -> Blob:
    """Return the layer of `entries`, which is called only without a known blob for `inputs`."""
    known = _known(inputs)
    if known is not None:
        return known
    with cache.locked("oci"):
        known = _known(inputs)
        if known is not None:  # another run made it meanwhile
            return known
        scratch = cache.folder("oci", "blobs", "sha256") / f".layer-{os.getpid()}"
        with scratch.open("wb") as output:
            hashing = _Hashing(output)
            write_tar(hashing, entries())
        blob = Blob(f"sha256:{hashing.digest}", scratch.stat().st_size)
        scratch.rename(blob.path)
        cache.write_atomic(_note(inputs), blob.digest)
    return blob


def is_known(inputs: str) -> bool:
    """Return whether the layer of these inputs is in the store."""
    return _known(inputs) is not None


def _note(inputs: str) -> Path:
    return cache.root() / "oci" / "layers" / inputs


def _known(inputs: str) -> Blob | None:
    if not _note(inputs).exists():
        return None
    digest = _note(inputs).read_text()
    path = blob_path(digest)
    return Blob(digest, path.stat().st_size) if path.exists() else None


def image(
    name: str,
    layers: Sequence[Blob],
    *,
    entrypoint: Sequence[str],
    command: Sequence[str] = (),
    user: str = "65532:65532",
    stop_signal: str = "",
) -> Image:
    """Put an image together. Without a stop signal it is SIGTERM."""
    config = {
        "architecture": ARCHITECTURE,
        "os": "linux",
        "created": "1970-01-01T00:00:00Z",
        "config": {
            "User": user,
            "Env": ["PATH=/usr/local/bin:/usr/bin:/usr/sbin:/bin"],
            "Entrypoint": list(entrypoint),
            "Cmd": list(command),
            "WorkingDir": "/",
            **({"StopSignal": stop_signal} if stop_signal else {}),
        },
        "rootfs": {"type": "layers", "diff_ids": [blob.digest for blob in layers]},
        "history": [{"created": "1970-01-01T00:00:00Z"} for _ in layers],
    }
    config_blob = _write_json(config)
    manifest = _write_json(
        {
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": _descriptor(CONFIG, config_blob),
            "layers": [_descriptor(LAYER, blob) for blob in layers],
        }
    )
    return Image(name, manifest, (config_blob, *layers))


def write_archive(images: Iterable[Image], output: IO[bytes]) -> None:
    """Write images as one OCI archive, as `ctr images import` and pushers read it."""
    images = list(images)
    blobs = {blob.digest: blob for image in images for blob in (image.manifest, *image.blobs)}
    entries = [
        LayerEntry("oci-layout", content=b'{"imageLayoutVersion":"1.0.0"}', mode=0o644),
        LayerEntry("index.json", content=json.dumps(index(images)).encode(), mode=0o644),
    ]
    entries += [
        LayerEntry(f"blobs/sha256/{digest.removeprefix('sha256:')}", source=blob.path, mode=0o644)
        for digest, blob in sorted(blobs.items())
    ]
    write_tar(output, entries)


def index(images: Iterable[Image]) -> dict[str, Any]:
    """Return the list of images at the top of an archive or a layout folder."""
    manifests = [
        _descriptor(MANIFEST, image.manifest)
        | {"annotations": {"io.containerd.image.name": image.name}}
        for image in images
    ]
    return {"schemaVersion": 2, "mediaType": INDEX, "manifests": manifests}


def tree(root: Path, prefix: str = "") -> Iterable[LayerEntry]:
    """Return the entries of a folder on disk, with owners and modes, in a fixed order."""
    for folder, names, files in os.walk(root):
        names.sort()
        for name in sorted([*names, *files]):
            path = Path(folder) / name
            status = path.lstat()
            inner = f"{prefix}{path.relative_to(root)}"
            mode, uid, gid = status.st_mode & 0o7777, status.st_uid, status.st_gid
            if path.is_symlink():
                yield LayerEntry(inner, 0o777, link=str(path.readlink()), uid=uid, gid=gid)
            elif path.is_dir():
                yield LayerEntry(inner, mode, uid=uid, gid=gid)
            elif path.is_file():
                yield LayerEntry(inner, mode, source=path, uid=uid, gid=gid)


def write_tar(output: Any, entries: Iterable[LayerEntry]) -> None:
    """Write an archive without times and without names of users."""
    with tarfile.open(fileobj=output, mode="w|", format=tarfile.PAX_FORMAT, bufsize=1 << 20) as tar:
        for entry in entries:
            member = tarfile.TarInfo(entry.name)
            member.mode, member.uid, member.gid = entry.mode, entry.uid, entry.gid
            if entry.link is not None:
                member.type, member.linkname = tarfile.SYMTYPE, entry.link
                tar.addfile(member)
            elif entry.source is not None:
                with entry.source.open("rb") as data:
                    member.size = os.fstat(data.fileno()).st_size
                    tar.addfile(member, data)
            elif entry.content is not None:
                member.size = len(entry.content)
                tar.addfile(member, io.BytesIO(entry.content))
            else:
                member.type = tarfile.DIRTYPE
                tar.addfile(member)


def _write_json(document: Mapping[str, Any]) -> Blob:
    data = json.dumps(document, sort_keys=True).encode()
    digest = hashlib.sha256(data).hexdigest()
    blob = Blob(f"sha256:{digest}", len(data))
    if not blob.path.exists():
        cache.write_atomic(blob.path, data)
    return blob


def _descriptor(kind: str, blob: Blob) -> dict[str, Any]:
    return {"mediaType": kind, "digest": blob.digest, "size": blob.size}


class _Hashing:
    """A file that computes the digest of the bytes written through it."""

    def __init__(self, output: IO[bytes]) -> None:
        self._output = output
        self._hash = hashlib.sha256()

    def write(self, data: bytes) -> int:
        self._hash.update(data)
        return self._output.write(data)

    @property
    def digest(self) -> str:
        return self._hash.hexdigest()
