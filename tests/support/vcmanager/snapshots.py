"""Snapshots, a live etcd and small etcd databases for tests."""

import hashlib
import struct
from pathlib import Path
from typing import Any

from tenancy.snapshots import view
from tenancy.snapshots.view import Snapshot
from tests.support.vcmanager.factories import TENANT

SNAPSHOT_UID = "5a1b0c5e-0000-4000-8000-000000000001"
_PAGE = 4096


def snapshot_body(phase: str = "Complete", **more: Any) -> dict[str, Any]:
    """Return a VirtualClusterSnapshot of the tenant. Keywords are fields of its manifest."""
    manifest = {
        "virtualClusterUID": TENANT.uid,
        "kubernetesVersion": "v1.36.1",
        "etcdVersion": "3.7.3",
        "sha256": "ab" * 32,
        "sizeBytes": 24608,
        "secrets": {},
        **more,
    }
    return {
        "metadata": {
            "name": "first",
            "namespace": TENANT.namespace,
            "uid": SNAPSHOT_UID,
            "creationTimestamp": "2026-03-01T11:00:00Z",
        },
        "spec": {"virtualClusterName": TENANT.name},
        "status": {
            "phase": phase,
            "completedAt": "2026-03-01T11:01:00Z",
            "manifest": manifest if phase == "Complete" else None,
        },
    }


def make_snapshot(phase: str = "Complete", **more: Any) -> Snapshot:
    """Return the view of `snapshot_body`."""
    return view.parse_snapshot(snapshot_body(phase, **more))


def live_etcd(**pod: Any) -> dict[str, Any]:
    """Return the StatefulSet of etcd. Keywords are fields of its pod template."""
    container = {"name": "etcd", "image": "registry.example/vc/etcd:3.7.3"}
    claim = {"spec": {"resources": {"requests": {"storage": "2Gi"}}, "storageClassName": "fast"}}
    return {
        "metadata": {"name": "etcd", "namespace": TENANT.root, "uid": "uid-etcd"},
        "spec": {
            "replicas": 1,
            "template": {"spec": {"containers": [container], **pod}},
            "volumeClaimTemplates": [claim],
        },
    }


def write_database(path: Path, changes: list[tuple[int, str, bool]]) -> None:
    """Write an etcd snapshot with these revisions: number, key, and whether it is a delete."""
    entries = []
    for revision, key, is_delete in changes:
        name = key.encode()
        head = struct.pack(">Q", revision) + b"_" + struct.pack(">Q", 0)
        entries.append(
            (head + (b"t" if is_delete else b""), b"\x0a" + bytes([len(name)]) + name, 0)
        )
    root = _leaf(3, [(b"key", struct.pack("<QQ", 4, 0), 1)])
    pages = [_meta(0, 1), _meta(1, 2), bytes(_PAGE), root, _leaf(4, entries)]
    content = b"".join(pages)
    path.write_bytes(content + hashlib.sha256(content).digest())


def _meta(number: int, transaction: int) -> bytes:
    header = struct.pack("<QHHI", number, 4, 0, 0)
    body = struct.pack("<IIIIQQQQQ", 0xED0CDAED, 2, _PAGE, 0, 3, 0, 2, 5, transaction)
    value = 0xCBF29CE484222325
    for each in body:
        value = ((value ^ each) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return (header + body + struct.pack("<Q", value)).ljust(_PAGE, b"\0")


def _leaf(number: int, entries: list[tuple[bytes, bytes, int]]) -> bytes:
    start, heads, bodies = 16 + 16 * len(entries), b"", b""
    for index, (key, value, flags) in enumerate(entries):
        position = start + len(bodies) - (16 + 16 * index)
        heads += struct.pack("<IIII", flags, position, len(key), len(value))
        bodies += key + value
    return (struct.pack("<QHHI", number, 2, len(entries), 0) + heads + bodies).ljust(_PAGE, b"\0")
