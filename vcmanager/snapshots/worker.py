"""Program `vc-manager snapshot-file`, which runs in the pods of Jobs: it checks and moves files.

Owns the files of a snapshot and, during a restore, the data folder of a stopped etcd. Writes its
result as JSON to the termination message of its container. Must not import anything outside the
standard library and its own folder, because each import delays the Job.

Hazard: the present data of etcd is deleted only after the restored data has its place. Each step
can be repeated after the pod was killed.
"""

import argparse
import base64
import hashlib
import ipaddress
import json
import os
import shutil
import ssl
import sys
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from vcmanager.snapshots import etcd_database, etcd_fork, file_store, s3_client
from vcmanager.snapshots.etcd_database import DatabaseError, EtcdDatabase
from vcmanager.snapshots.file_store import CHECKSUM_MISMATCH, FAILED, VOLUME_FULL, WorkerError
from vcmanager.snapshots.file_transfer import hold, receive, send
from vcmanager.snapshots.s3_client import S3Client

PROGRAM = "snapshot-file"
FORK_SUFFIX = ".fork"
"""End of the name of the file that a new tenant starts from."""
_MANIFEST_VARIABLE = "SNAPSHOT_MANIFEST"
_MARGIN_BYTES = 160 * 1024 * 1024
"""Free space in bytes that a restore needs beside the database, for two files of the write-ahead
log, which etcd allocates in full."""
_PAGE_KEYS = 5000
_MAX_NAMED = 20
"""Number of keys that a comparison names. A termination message has at most 4096 bytes."""
_MAX_NAME = 100
_REQUEST_SECONDS = 30.0
_ENOSPC = 28


def main(arguments: Sequence[str]) -> int:
    """Run one step. Return 0, or 1 after a failure that the termination message reports."""
    options = _parse(arguments)
    try:
        result = _run(options)
    except WorkerError as problem:
        return _report({"reason": problem.reason, "message": str(problem)}, code=1)
    except OSError as problem:
        reason = VOLUME_FULL if problem.errno == _ENOSPC else FAILED
        return _report({"reason": reason, "message": str(problem)}, code=1)
    return 0 if options.step is send else _report(result, code=0)


def _run(options: argparse.Namespace) -> dict[str, Any]:
    """Run a step. Files of a bucket are downloaded before it, and uploaded after it."""
    step: Callable[[argparse.Namespace], dict[str, Any]] = options.step
    if not getattr(options, "s3_endpoint", ""):
        return step(options)
    client, path = S3Client(s3_client.read_bucket(options)), options.file
    if step is delete:
        for each in (path, get_manifest_path(path)):
            client.delete(each.name)
        return {"deleted": True}
    if step is not record and not path.exists():
        client.download(path)
    result = step(options)
    if step is record:
        # The small file is the first one, because a server that refuses may cut off a large one.
        manifest = get_manifest_path(path)
        client.upload(manifest, hashlib.sha256(manifest.read_bytes()).hexdigest())
        client.upload(path, result["sha256"])
    return result


def record(options: argparse.Namespace) -> dict[str, Any]:
    """Write the manifest beside a saved snapshot, and return the part that was measured."""
    path: Path = options.file
    checksum, size = file_store.check_file(path, options.sha256)
    with EtcdDatabase(path) as database:
        revision, live = database.read_live_keys()
    measured = {
        "sha256": checksum,
        "sizeBytes": size,
        "revision": revision,
        "objects": len(live),
    }
    known = json.loads(os.environ.get(_MANIFEST_VARIABLE) or "{}")
    counts = etcd_database.count_by_resource(live)
    file_store.write_durably(
        get_manifest_path(path), json.dumps({**known, **measured, "resources": counts})
    )
    return measured


def verify(options: argparse.Namespace) -> dict[str, Any]:
    """Check a snapshot. With a data folder, also make room for the restored data in it."""
    checksum, size = file_store.check_file(options.file, options.sha256)
    if options.data_dir is not None:
        _prepare_data_dir(options.data_dir, size)
    return {"sha256": checksum, "sizeBytes": size}


def swap(options: argparse.Namespace) -> dict[str, Any]:
    """Put the restored data in the place of the present data, and delete the latter."""
    folder: Path = options.data_dir
    data, restored, replaced = folder / "data", folder / "restored", folder / "replaced"
    if restored.exists():
        if data.exists():
            if replaced.exists():
                shutil.rmtree(replaced)
            data.rename(replaced)
        restored.rename(data)
        file_store.sync_folder(folder)
    if not data.exists():
        raise WorkerError(FAILED, f"{folder} has no restored data")
    if replaced.exists():
        shutil.rmtree(replaced)
    if options.fork is not None:
        options.fork.unlink(missing_ok=True)
    return {"restored": True}


def delete(options: argparse.Namespace) -> dict[str, Any]:
    """Delete a snapshot with its manifest."""
    path: Path = options.file
    others = (path.with_name(f"{path.name}{end}") for end in (".part", FORK_SUFFIX))
    for each in (path, get_manifest_path(path), *others):
        each.unlink(missing_ok=True)
    return {"deleted": True}


def fork(options: argparse.Namespace) -> dict[str, Any]:
    """Write the snapshot that a new tenant starts from, beside the snapshot of the old one."""
    try:
        return etcd_fork.fork_database(
            options.file, options.out, ipaddress.ip_network(options.service_range)
        )
    except DatabaseError as problem:
        raise WorkerError(CHECKSUM_MISMATCH, str(problem)) from problem


def compare(options: argparse.Namespace) -> dict[str, Any]:
    """Return what a restore would change: the keys of a snapshot and of the running etcd."""
    file_store.check_file(options.file, options.sha256)
    with EtcdDatabase(options.file) as database:
        _, saved = database.read_live_keys()
    return compare_keys(saved, _fetch_live_keys(options))


def compare_keys(saved: Mapping[str, int], live: Mapping[str, int]) -> dict[str, Any]:
    """Return the numbers of objects by resource that a restore removes, brings back and reverts.

    `removed` names the first objects that exist now and not in the snapshot. Deletes of their
    copies in the super cluster wait for a confirmation.
    """
    removed = sorted(live.keys() - saved.keys())
    back = saved.keys() - live.keys()
    reverted = {key for key in saved.keys() & live.keys() if saved[key] != live[key]}
    count = etcd_database.count_by_resource
    return {
        "removed": count(dict.fromkeys(removed, 0)),
        "broughtBack": count(dict.fromkeys(back, 0)),
        "reverted": count(dict.fromkeys(reverted, 0)),
        "removedNames": [key.removeprefix("/registry/")[:_MAX_NAME] for key in removed][
            :_MAX_NAMED
        ],
    }


def get_manifest_path(path: Path) -> Path:
    """Return the path of the manifest of a snapshot file."""
    return path.with_suffix(".json")


def _prepare_data_dir(folder: Path, size: int) -> None:
    """Undo an interrupted restore, and check the free space. The present data stays."""
    data, restored, replaced = folder / "data", folder / "restored", folder / "replaced"
    if replaced.exists() and not data.exists():
        replaced.rename(data)
        file_store.sync_folder(folder)
    for each in (restored, replaced):
        if each.exists():
            shutil.rmtree(each)
    free = shutil.disk_usage(folder).free
    if free < size + _MARGIN_BYTES:
        raise WorkerError(
            VOLUME_FULL,
            f"the volume of etcd has {free} bytes free, and the restore needs"
            f" {size + _MARGIN_BYTES} beside the present data",
        )


def _fetch_live_keys(options: argparse.Namespace) -> dict[str, int]:
    """Return the keys of the running etcd by its JSON gateway, with their last revision."""
    context = ssl.create_default_context(cafile=options.cacert) if options.cacert else None
    if context is not None:
        context.load_cert_chain(options.cert, options.key)
    found: dict[str, int] = {}
    start, end = b"/registry/", b"/registry0"
    while True:
        body = {
            "key": base64.b64encode(start).decode(),
            "range_end": base64.b64encode(end).decode(),
            "keys_only": True,
            "limit": str(_PAGE_KEYS),
        }
        request = urllib.request.Request(  # noqa: S310 - the scheme is that of the Job
            f"{options.endpoint}/v3/kv/range", data=json.dumps(body).encode(), method="POST"
        )
        with urllib.request.urlopen(  # noqa: S310
            request, timeout=_REQUEST_SECONDS, context=context
        ) as answer:
            page = json.load(answer)
        keys = [(base64.b64decode(each["key"]), each) for each in page.get("kvs") or ()]
        for key, each in keys:
            found[key.decode(errors="replace")] = int(each.get("mod_revision", 0))
        if not page.get("more") or not keys:
            return found
        start = keys[-1][0] + b"\0"


def _report(result: Mapping[str, Any], *, code: int) -> int:
    text = json.dumps(result)
    (sys.stderr if code else sys.stdout).write(f"{text}\n")
    path = os.environ.get("TERMINATION_LOG", "/dev/termination-log")
    if os.path.exists(path):  # noqa: PTH110 - a device file
        with open(path, "w") as file:  # noqa: PTH123
            file.write(text)
    return code


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog=f"vc-manager {PROGRAM}")
    steps = parser.add_subparsers(required=True)
    for step in (record, verify, fork, swap, delete, compare, hold, send, receive):
        one = steps.add_parser(step.__name__)
        one.set_defaults(step=step)
        if step not in (swap, hold):
            one.add_argument("file", type=Path)
        if step in (record, verify, compare, receive):
            one.add_argument("--sha256", default="")
        if step in (verify, swap):
            one.add_argument("--data-dir", type=Path, required=step is swap)
        if step is swap:
            one.add_argument("--fork", type=Path)
        if step is compare:
            one.add_argument("--endpoint", required=True)
            for flag in ("--cacert", "--cert", "--key"):
                one.add_argument(flag, default="")
        if step in (record, verify, compare, delete, send):
            for flag in ("endpoint", "bucket", "prefix", "region", "credentials-secret"):
                one.add_argument(f"--s3-{flag}", default="")
            one.add_argument("--s3-credentials", type=Path)
            one.add_argument("--s3-ca", type=Path)
        if step is fork:
            one.add_argument("--out", type=Path, required=True)
            one.add_argument("--service-range", required=True)
        for only, flag in ((hold, "--seconds"), (send, "--offset"), (receive, "--size")):
            if step is only:
                one.add_argument(flag, type=int, required=True)
    return parser.parse_args(arguments)
