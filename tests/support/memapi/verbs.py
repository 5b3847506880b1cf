"""Verbs of clients on objects: create, replace, patch, bind, delete, as an API server does it.

Owns identity, checks of revisions and the end of objects: grace, finalizers, preconditions. Must
not know HTTP. Hazard: a write that changes nothing makes no event, as on real servers.
"""

import string
from collections.abc import Callable
from datetime import datetime
from typing import Any

import orjson

from tenancy.resources import NAMESPACES
from tests.support.memapi import managed, refusals, validation
from tests.support.memapi.cluster import Collection, MemoryCluster
from tests.support.memapi.defaults import COUNTED
from tests.support.memapi.refusals import StatusError
from tests.support.memapi.watches import Object, StoredObject

_LETTERS = string.ascii_lowercase + string.digits
_KEPT = ("name", "namespace", "uid", "creationTimestamp", "generation", "deletionTimestamp")
_OWN_STATUS = frozenset(
    {
        "Ingress",
        "Namespace",
        "Node",
        "PersistentVolume",
        "PersistentVolumeClaim",
        "Pod",
        "PodDisruptionBudget",
        "Service",
        "VirtualCluster",
    }
)
"""Kinds whose status is written apart from the rest."""
_IMMORTAL = frozenset({"default", "kube-public", "kube-system"})


def found(collection: Collection, namespace: str, name: str) -> StoredObject:
    """Return an object. Raises RefusedError."""
    there = collection.get(namespace, name)
    if there is None:
        raise refusals.not_found(_plural(collection), name)
    return there


def _plural(collection: Collection) -> str:
    resource = collection.resource
    return f"{resource.plural}.{resource.group}" if resource.group else resource.plural


def create(
    cluster: MemoryCluster, collection: Collection, namespace: str, body: Object, manager: str
) -> StoredObject:
    """Make an object."""
    resource = collection.resource
    metadata = body.setdefault("metadata", {})
    if resource.namespaced and metadata.get("namespace", namespace) != namespace:
        raise refusals.bad(
            f"the namespace of the provided object does not match the namespace sent on the"
            f" request ({namespace})"
        )
    if not metadata.get("name"):
        if not metadata.get("generateName"):
            raise refusals.invalid(resource.kind, "", "metadata.name", "name or generateName")
        tail = "".join(cluster.chance.choices(_LETTERS, k=5))
        metadata["name"] = metadata["generateName"] + tail
    name = metadata["name"]
    if resource.namespaced:
        metadata["namespace"] = namespace
        admit(collection, namespace, name)
    if metadata.get("resourceVersion"):
        message = "resourceVersion should not be set on objects to be created"
        raise StatusError(500, "", message)
    there = collection.get(namespace if resource.namespaced else "", name)
    if there is not None:
        raise refusals.already_exists(_plural(collection), name)
    for key in ("resourceVersion", "deletionTimestamp", "deletionGracePeriodSeconds"):
        metadata.pop(key, None)
    for key in ("managedFields", "generation", "selfLink"):
        metadata.pop(key, None)
    metadata |= {"uid": cluster.new_uid(), "creationTimestamp": cluster.now()}
    made: Object = {"kind": resource.kind, "apiVersion": resource.api_version, **body}
    if resource.kind in _OWN_STATUS and resource.kind != "Node":  # a kubelet registers with it
        made.pop("status", None)
    managed.note(made, manager, made)
    cluster.admission.complete(resource.kind, made)
    if resource.kind == "Event" and not cluster.keeps_events:
        return collection.pass_by(made)
    return collection.put(made)


def admit(collection: Collection, namespace: str, name: str) -> None:
    """Refuse what is to be made in a namespace that is not there, or not for long."""
    space = collection.cluster.of(NAMESPACES).get("", namespace)
    if space is None:
        raise refusals.not_found("namespaces", namespace)
    if collection.resource.kind != "Event" and _is_terminating(space):
        raise refusals.terminating(_plural(collection), name, namespace)


def _is_terminating(space: StoredObject) -> bool:
    return b'"deletionTimestamp"' in space.body and (
        "deletionTimestamp" in space.decode()["metadata"]
    )


def replace(
    collection: Collection, old: StoredObject, body: Object, manager: str, *, subresource: str = ""
) -> StoredObject:
    """Put a body in place of an object, or its status in place of the object's."""
    there = old.decode()
    told = body.get("metadata") or {}
    uid = there["metadata"]["uid"]
    if told.get("uid", uid) != uid:
        raise refusals.precondition(_plural(collection), old.name, "UID", told["uid"], uid)
    if not told.get("resourceVersion") and collection.resource.kind in validation.CONDITIONAL:
        why = "must be specified for an update"
        raise refusals.invalid(_plural(collection), old.name, "metadata.resourceVersion", why)
    new = {"kind": there["kind"], "apiVersion": there["apiVersion"], **body}
    new["metadata"] = dict(told)
    return _written(collection, old, new, body, manager=manager, subresource=subresource)


def patch(
    collection: Collection,
    old: StoredObject,
    change: Callable[[Object], Object],
    written: Object,
    manager: str,
    *,
    subresource: str = "",
) -> StoredObject:
    """Change an object, or a part that is written separately. `written` is the new content."""
    new = change(old.decode())
    return _written(collection, old, new, written, manager=manager, subresource=subresource)


def _written(
    collection: Collection,
    old: StoredObject,
    new: Object,
    written: Object,
    *,
    manager: str,
    subresource: str,
) -> StoredObject:
    there = old.decode()
    plural = _plural(collection)
    metadata = there["metadata"]
    told = new.get("metadata") or {}
    version = told.get("resourceVersion")
    if version and version != str(old.revision):
        raise refusals.modified(plural, old.name)
    if told.get("uid", metadata["uid"]) != metadata["uid"]:
        raise refusals.invalid(plural, old.name, "metadata.uid", "field is immutable")
    kind = collection.resource.kind
    new["metadata"] = _metadata(metadata, told)
    collection.cluster.admission.mend(kind, new, there)
    if subresource == "status":
        new = _of_status(there, new)
    elif kind in _OWN_STATUS:
        new.pop("status", None)
        if "status" in there:
            new["status"] = there["status"]
    if "deletionTimestamp" in metadata:
        validation.check_finalizers(plural, there, new)
    if not subresource:
        validation.check(plural, there, new)
    if new == there:
        return old
    if kind in COUNTED and validation.spec_of(new) != validation.spec_of(there):
        new["metadata"]["generation"] = metadata.get("generation", 1) + 1
    managed.note(new, manager, written, subresource)
    if _is_over(kind, new):
        collection.remove(there)  # watches are shown what was stored last
        return StoredObject(old.namespace, old.name, old.revision, old.labels, orjson.dumps(new))
    return collection.put(new)


def _metadata(there: Object, told: Object) -> Object:
    """Return an object's metadata after a write: identity and its end are not the writer's."""
    kept = {key: there[key] for key in (*_KEPT, "managedFields") if key in there}
    if "deletionTimestamp" in there:
        kept["deletionGracePeriodSeconds"] = there.get("deletionGracePeriodSeconds")
    else:
        told = {key: value for key, value in told.items() if not key.startswith("deletion")}
    new = {**told, **kept, "resourceVersion": there["resourceVersion"]}
    return {key: value for key, value in new.items() if value not in ({}, [], None)}


def _of_status(there: Object, new: Object) -> Object:
    """Return an object after a write to its status: labels and the like come along."""
    found = {**there, "metadata": new["metadata"]}
    if new.get("status") is not None:
        found["status"] = new["status"]
    else:
        found.pop("status", None)
    return found


def _is_over(kind: str, body: Object) -> bool:
    metadata = body["metadata"]
    if "deletionTimestamp" not in metadata or metadata.get("finalizers"):
        return False
    if kind == "Namespace":
        return not (body.get("spec") or {}).get("finalizers")
    return kind != "Pod" or metadata.get("deletionGracePeriodSeconds") == 0


def finalize(collection: Collection, old: StoredObject, body: Object) -> StoredObject:
    """Write the finalizers of a namespace's spec, as the namespace controller does."""
    there = old.decode()
    there["spec"] = {**(there.get("spec") or {}), "finalizers": body["spec"].get("finalizers")}
    if not there["spec"]["finalizers"]:
        del there["spec"]["finalizers"]
    if _is_over("Namespace", there):
        return collection.remove(there)
    return collection.put(there)


def bind(collection: Collection, old: StoredObject, node: str, uid: str = "") -> StoredObject:
    """Give a pod its node."""
    body = old.decode()
    metadata = body["metadata"]
    if uid and uid != metadata["uid"]:
        raise refusals.precondition("pods/binding", old.name, "UID", uid, metadata["uid"])
    if "deletionTimestamp" in metadata:
        why = f"pod {old.name} is being deleted, cannot be assigned to a host"
        raise StatusError(409, "Conflict", why)
    if body["spec"].get("nodeName"):
        why = f"pod {old.name} is already assigned to node {body['spec']['nodeName']!r}"
        raise StatusError(409, "Conflict", why)
    body["spec"]["nodeName"] = node
    condition = {
        "lastProbeTime": None,
        "lastTransitionTime": collection.cluster.now(),
        "status": "True",
        "type": "PodScheduled",
    }
    status = body.setdefault("status", {})
    others = [each for each in status.get("conditions") or () if each["type"] != "PodScheduled"]
    status["conditions"] = [*others, condition]
    return collection.put(body)


def delete(collection: Collection, old: StoredObject, options: Object) -> tuple[StoredObject, bool]:
    """Delete an object, or mark it while it has grace or finalizers. Return True if deleted."""
    body = old.decode()
    plural, kind, metadata = _plural(collection), collection.resource.kind, body["metadata"]
    if kind == "Namespace" and old.name in _IMMORTAL:
        raise refusals.forbidden(plural, old.name, "this namespace may not be deleted")
    conditions: dict[str, Any] = options.get("preconditions") or {}
    for field, key, there in (
        ("UID", "uid", metadata["uid"]),
        ("ResourceVersion", "resourceVersion", str(old.revision)),
    ):
        told = conditions.get(key, there)
        if told != there:
            raise refusals.precondition(plural, old.name, field, told, there)
    if kind == "Namespace":
        return _delete_namespace(collection, old, body)
    known, asked = metadata.get("deletionGracePeriodSeconds", 0), _asked(options)
    is_graceful = kind == "Pod" and known > 0  # being deleted: its end can only come nearer
    if is_graceful and (asked is None or asked >= known):
        return old, False
    is_held_anew = _hold(metadata, options.get("propagationPolicy") or "")
    if "deletionTimestamp" not in metadata:
        grace = _grace(body, asked) if kind == "Pod" else 0
        metadata["deletionTimestamp"] = collection.cluster.now(grace)
        if "generation" in metadata:
            metadata["generation"] += 1
    elif is_graceful and asked is not None:
        grace = _hurry(collection.cluster, metadata, asked)
    elif metadata.get("finalizers"):
        return (collection.put(body) if is_held_anew else old), False
    else:
        return collection.remove(old.decode()), True
    metadata["deletionGracePeriodSeconds"] = grace
    if grace or metadata.get("finalizers"):
        return collection.put(body), False
    if kind == "Pod":
        collection.put(body)  # as real servers do, with an event of its own
    return collection.remove(body if kind == "Pod" else old.decode()), True


def _asked(options: Object) -> int | None:
    """Return the grace that a client requests, if it does. Less than none is a second."""
    asked = options.get("gracePeriodSeconds")
    return asked if asked is None or asked >= 0 else 1


def _hurry(cluster: MemoryCluster, metadata: Object, asked: int) -> int:
    """Bring the end of a pod nearer, to this moment at most. Return its grace."""
    told = datetime.fromisoformat(metadata["deletionTimestamp"]).timestamp()
    ahead = told - metadata["deletionGracePeriodSeconds"] + asked - cluster.clock()
    if ahead < 0:
        ahead, asked = 0, min(asked, 1)  # it stays a delete with grace
    metadata["deletionTimestamp"] = cluster.now(ahead)
    return asked


_FINALIZERS = {"Foreground": "foregroundDeletion", "Orphan": "orphan"}


def _hold(metadata: Object, policy: str) -> bool:
    """Set the finalizers of a policy, and no others. Return whether they changed."""
    before = metadata.get("finalizers") or []
    if not policy:
        return False
    kept = [each for each in before if each not in _FINALIZERS.values()]
    found = [*kept, *([_FINALIZERS[policy]] if policy in _FINALIZERS else [])]
    if set(found) == set(before):
        return False
    metadata["finalizers"] = found
    if not found:
        del metadata["finalizers"]
    return True


def _delete_namespace(
    collection: Collection, old: StoredObject, body: Object
) -> tuple[StoredObject, bool]:
    if "deletionTimestamp" in body["metadata"]:
        if _is_over("Namespace", body):
            return collection.remove(body), True
        return old, False
    body["metadata"]["deletionTimestamp"] = collection.cluster.now()
    body["status"] = {**(body.get("status") or {}), "phase": "Terminating"}
    if _is_over("Namespace", body):
        return collection.remove(body), True
    return collection.put(body), False


def _grace(pod: Object, asked: int | None) -> int:
    spec = pod["spec"]
    if not spec.get("nodeName") or pod["status"].get("phase") in ("Succeeded", "Failed"):
        return 0
    return int(spec["terminationGracePeriodSeconds"] if asked is None else asked)
