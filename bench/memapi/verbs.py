"""What clients do to objects: create, replace, patch, bind, delete, as an API server does it.

Owns identity, revisions' checks and the end of objects: grace, finalizers, preconditions. Must not
know HTTP. Hazard: a write that changes nothing makes no event, as on real servers.
"""

import random
import string
import time
from typing import Any

from bench.memapi import managed, patches
from bench.memapi.cluster import Cluster, Collection, Object, Stored, new_uid
from bench.memapi.defaults import COUNTED

_LETTERS = string.ascii_lowercase + string.digits
_KEPT = ("name", "namespace", "uid", "creationTimestamp", "generation", "deletionTimestamp")
_OWN_STATUS = frozenset({"Node", "PersistentVolumeClaim", "Pod", "Service", "VirtualCluster"})
"""Kinds whose status is written apart from the rest."""


class RefusedError(Exception):
    """What is answered instead of an object."""

    def __init__(self, code: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason


def now() -> str:
    """Return the time as API servers write it."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def found(collection: Collection, namespace: str, name: str) -> Stored:
    """Return an object; raises RefusedError."""
    there = collection.get(namespace, name)
    if there is None:
        message = f'{collection.resource.plural} "{name}" not found'
        raise RefusedError(404, "NotFound", message)
    return there


def create(
    cluster: Cluster, collection: Collection, namespace: str, body: Object, manager: str
) -> Stored:
    """Make an object; what is only told (Events) is not kept."""
    resource = collection.resource
    metadata = body.setdefault("metadata", {})
    if not metadata.get("name"):
        tail = "".join(random.choices(_LETTERS, k=5))  # noqa: S311 - a name, no secret
        metadata["name"] = metadata.get("generateName", "") + tail
    if resource.namespaced:
        metadata["namespace"] = namespace
    name = metadata["name"]
    if collection.get(namespace, name) is not None:
        raise RefusedError(409, "AlreadyExists", f'{resource.plural} "{name}" already exists')
    for key in ("resourceVersion", "deletionTimestamp", "managedFields"):
        metadata.pop(key, None)
    metadata |= {"uid": new_uid(), "creationTimestamp": now()}
    made: Object = {"kind": resource.kind, "apiVersion": resource.api_version, **body}
    if resource.kind in _OWN_STATUS and resource.kind != "Node":  # a kubelet registers with it
        made.pop("status", None)
    managed.note(made, manager, made)
    cluster.admission.complete(resource.kind, made)
    return collection.pass_by(made) if resource.kind == "Event" else collection.put(made)


def replace(
    collection: Collection, old: Stored, body: Object, manager: str, *, subresource: str = ""
) -> Stored:
    """Put a body in place of an object, or its status in place of the object's."""
    there = old.decode()
    _check(body.get("metadata") or {}, there, old)
    if subresource:
        new = {**there, subresource: body.get(subresource)}
    else:
        new = {**there, **body}
        for key in there:
            if key not in body and key != "status":
                del new[key]
        new["metadata"] = dict(body["metadata"])
    return _written(collection, there, new, body, manager=manager, subresource=subresource)


def patch(
    collection: Collection,
    old: Stored,
    body: Object,
    manager: str,
    *,
    by_key: bool = False,
    subresource: str = "",
) -> Stored:
    """Merge a body into an object, or into its status."""
    there = old.decode()
    _check(body.get("metadata") or {}, there, old)
    if subresource == "status":
        new = patches.merged(there, {"status": body.get("status")}, by_key=by_key)
    else:
        new = patches.merged(there, body, by_key=by_key)
    return _written(collection, there, new, body, manager=manager, subresource=subresource)


def _check(told: Object, there: Object, old: Stored) -> None:
    version = told.get("resourceVersion")
    is_other = told.get("uid", there["metadata"]["uid"]) != there["metadata"]["uid"]
    if is_other or (version and version != str(old.revision)):
        message = f'the object "{old.name}" has been modified; apply your changes to the latest'
        raise RefusedError(409, "Conflict", message)


def _written(
    collection: Collection,
    there: Object,
    new: Object,
    written: Object,
    *,
    manager: str,
    subresource: str,
) -> Stored:
    metadata = there["metadata"]
    kept = {key: metadata[key] for key in (*_KEPT, "managedFields") if key in metadata}
    new["metadata"] = {**new["metadata"], **kept, "resourceVersion": metadata["resourceVersion"]}
    kind = collection.resource.kind
    if not subresource and kind in _OWN_STATUS and "status" in there:
        new["status"] = there["status"]
    if new == there:
        return found(collection, metadata.get("namespace", ""), metadata["name"])
    if kind in COUNTED and new.get("spec") != there.get("spec"):
        new["metadata"]["generation"] = metadata.get("generation", 1) + 1
    managed.note(new, manager, written, subresource)
    if _is_over(kind, new):
        return collection.remove(new)
    return collection.put(new)


def _is_over(kind: str, body: Object) -> bool:
    metadata = body["metadata"]
    if "deletionTimestamp" not in metadata or metadata.get("finalizers"):
        return False
    return kind != "Pod" or metadata.get("deletionGracePeriodSeconds") == 0


def bind(collection: Collection, old: Stored, node: str, uid: str = "") -> Stored:
    """Give a pod its node."""
    body = old.decode()
    if (uid and uid != body["metadata"]["uid"]) or body["spec"].get("nodeName"):
        message = f'pod "{old.name}" is another one, or has a node'
        raise RefusedError(409, "Conflict", message)
    body["spec"]["nodeName"] = node
    condition = {
        "lastProbeTime": None,
        "lastTransitionTime": now(),
        "status": "True",
        "type": "PodScheduled",
    }
    body["status"] = patches.merged(body["status"], {"conditions": [condition]}, by_key=True)
    return collection.put(body)


def delete(collection: Collection, old: Stored, options: Object) -> tuple[Stored, bool]:
    """Delete an object, or mark it while it has grace or finalizers; tells whether it is gone."""
    body = old.decode()
    metadata = body["metadata"]
    conditions: dict[str, Any] = options.get("preconditions") or {}
    if conditions.get("uid", metadata["uid"]) != metadata["uid"]:
        raise RefusedError(409, "Conflict", f'the UID of "{old.name}" is another one')
    if conditions.get("resourceVersion", str(old.revision)) != str(old.revision):
        raise RefusedError(409, "Conflict", f'the resourceVersion of "{old.name}" is another one')
    grace = _grace(body, options) if collection.resource.kind == "Pod" else 0
    if not grace and not metadata.get("finalizers"):
        if metadata.get("deletionGracePeriodSeconds"):
            metadata["deletionGracePeriodSeconds"] = 0
            body = collection.put(body).decode()  # as real servers do, with an event of its own
        return collection.remove(body), True
    if "deletionTimestamp" in metadata:
        known = metadata.get("deletionGracePeriodSeconds", 0)
        if collection.resource.kind != "Pod" or grace >= known:
            return old, False
    else:
        metadata["deletionTimestamp"] = now()
        if "generation" in metadata:
            metadata["generation"] += 1
    metadata["deletionGracePeriodSeconds"] = grace
    return collection.put(body), False


def _grace(pod: Object, options: Object) -> int:
    spec = pod["spec"]
    if not spec.get("nodeName") or pod["status"].get("phase") in ("Succeeded", "Failed"):
        return 0
    asked = options.get("gracePeriodSeconds")
    return int(spec["terminationGracePeriodSeconds"] if asked is None else asked)
