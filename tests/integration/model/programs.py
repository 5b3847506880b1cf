"""Random programs of requests, for any API server.

A program is made from a seed and names nothing that a server makes: "the UID that it has now" and
the like are looked up while it runs (`runner`).
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

import orjson

from tenancy.resources import (
    CONFIG_MAPS,
    LEASES,
    NAMESPACES,
    PODS,
    SECRETS,
    SERVICE_ACCOUNTS,
    SERVICES,
    Resource,
)

Object = dict[str, Any]

KINDS = (CONFIG_MAPS, SECRETS, PODS, SERVICES, SERVICE_ACCOUNTS, LEASES)
NAMES = ("a", "b", "c")
SPACES = ("one", "two")
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
JSON = "application/json-patch+json"
APPLY = "application/apply-patch+yaml"


@dataclass(frozen=True)
class ProgramRequest:
    """One request, as far as it does not depend on what was answered before."""

    verb: str
    resource: Resource
    space: str
    name: str
    body: Any = None
    content: str = ""
    params: tuple[tuple[str, str], ...] = ()
    subresource: str = ""
    uid: str = ""
    """`right`, `wrong` or empty: which UID goes into the body."""
    version: str = ""
    """The same of the resourceVersion. `old` is one that it had before."""

    def __repr__(self) -> str:
        at = f"{self.resource.plural}/{self.subresource}".rstrip("/")
        marks = " ".join(filter(None, (self.uid and f"uid={self.uid}", self.version)))
        params = "&".join(f"{key}={value}" for key, value in self.params)
        body = orjson.dumps(self.body).decode() if self.body is not None else ""
        return f"{self.verb} {at} {self.space}/{self.name}?{params} {marks} {self.content} {body}"


def program(seed: int, length: int) -> list[ProgramRequest]:
    """Return the program of a seed."""
    chance = random.Random(seed)  # noqa: S311 - the same at each run
    kinds = chance.sample(KINDS, 2)
    return [_step(chance, kinds) for _ in range(length)]


def _step(chance: random.Random, kinds: list[Resource]) -> ProgramRequest:
    make = chance.choices(
        (_create, _replace, _merge, _edit, _strategic, _apply, _delete, _read, _pod, _space),
        (8, 6, 6, 4, 3, 3, 6, 4, 5, 1),
    )[0]
    resource = chance.choice(kinds)
    space = chance.choices((*SPACES, "nowhere"), (20, 20, 1))[0]
    return make(chance, resource, space, chance.choice(NAMES))


def _create(chance: random.Random, resource: Resource, space: str, name: str) -> ProgramRequest:
    body = fresh(chance, resource, name)
    if chance.random() < 0.15:
        body["metadata"] = {
            **body["metadata"],
            "generateName": f"made-{chance.randrange(1000):03}-",
        }
        del body["metadata"]["name"]
    if chance.random() < 0.3:
        body["metadata"]["finalizers"] = ["example.com/keep"]
    uid = chance.choices(("", "wrong"), (10, 1))[0]
    version = chance.choices(("", "right"), (20, 1))[0]
    return ProgramRequest("POST", resource, space, name, body, uid=uid, version=version)


def _replace(chance: random.Random, resource: Resource, space: str, name: str) -> ProgramRequest:
    body = fresh(chance, resource, name)
    _finalizers(chance, body)
    return ProgramRequest(
        "PUT",
        resource,
        space,
        name,
        body,
        uid=chance.choices(("", "right", "wrong"), (4, 4, 1))[0],
        version=chance.choices(("", "right", "old"), (4, 4, 2))[0],
    )


def _finalizers(chance: random.Random, body: Object) -> None:
    match chance.randrange(5):
        case 0:
            body["metadata"]["finalizers"] = ["example.com/keep"]
        case 1:
            body["metadata"]["finalizers"] = ["example.com/keep", "example.com/more"]


def _merge(chance: random.Random, resource: Resource, space: str, name: str) -> ProgramRequest:
    body: Object = {"metadata": _labels(chance)}
    if chance.random() < 0.3:
        body["metadata"]["finalizers"] = chance.choice((None, [], ["example.com/keep"]))
    body |= _edits(chance, resource)
    return ProgramRequest(
        "PATCH",
        resource,
        space,
        name,
        body,
        MERGE,
        uid=chance.choices(("", "right", "wrong"), (4, 4, 2))[0],
        version=chance.choices(("", "right", "old"), (6, 2, 1))[0],
    )


def _labels(chance: random.Random) -> Object:
    key = chance.choice("xyz")
    kind = chance.choice(("labels", "annotations"))
    return {kind: {key: chance.choice((None, "1", "2"))}}


def _edits(chance: random.Random, resource: Resource) -> Object:
    value = str(chance.randrange(3))
    if resource is CONFIG_MAPS:
        return {"data": {chance.choice("kl"): chance.choice((None, value))}}
    if resource is SECRETS:
        return {"stringData": {chance.choice("kl"): value}}
    if resource is SERVICES and chance.random() < 0.5:
        return {"spec": {"selector": {"app": value}}}
    if resource is LEASES:
        return {"spec": {"holderIdentity": value}}
    if resource is PODS and chance.random() < 0.3:
        return {"spec": {"activeDeadlineSeconds": 100 + chance.randrange(2)}}
    return {}


def _edit(chance: random.Random, resource: Resource, space: str, name: str) -> ProgramRequest:
    at = f"/metadata/labels/{chance.choice('xyz')}"
    operations: list[Object] = []
    if chance.random() < 0.4:
        operations.append({"op": "test", "path": at, "value": chance.choice("12")})
    kind = chance.choice(("add", "replace", "remove"))
    operation: Object = {"op": kind, "path": at}
    if kind != "remove":
        operation["value"] = chance.choice("12")
    return ProgramRequest("PATCH", resource, space, name, [*operations, operation], JSON)


def _strategic(chance: random.Random, resource: Resource, space: str, name: str) -> ProgramRequest:
    body: Object = {"metadata": _labels(chance)}
    if resource is PODS and chance.random() < 0.7:
        image = f"example.com/i:{chance.randrange(3)}"
        body["spec"] = {"containers": [{"name": "main", "image": image}]}
    if chance.random() < 0.3:
        body["metadata"]["finalizers"] = ["example.com/more"]
    uid = chance.choices(("", "right", "wrong"), (4, 4, 1))[0]
    return ProgramRequest("PATCH", resource, space, name, body, STRATEGIC, uid=uid)


def _apply(chance: random.Random, resource: Resource, space: str, name: str) -> ProgramRequest:
    """Apply to ConfigMaps only: what of other kinds is sent by half is not valid."""
    resource = CONFIG_MAPS
    body = {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {"name": name, "labels": {"applied": chance.choice("12")}},
        "data": {key: str(chance.randrange(3)) for key in "pq" if chance.random() < 0.5},
    }
    params = (("fieldManager", "one"), ("force", "true"))
    uid = chance.choices(("", "right", "wrong"), (6, 2, 1))[0]
    return ProgramRequest("PATCH", resource, space, name, body, APPLY, params, uid=uid)


def _delete(chance: random.Random, resource: Resource, space: str, name: str) -> ProgramRequest:
    body: Object = {"apiVersion": "v1", "kind": "DeleteOptions"}
    if chance.random() < 0.4:
        body["gracePeriodSeconds"] = chance.choice((0, 1, 5, 40))
    if chance.random() < 0.3:
        body["propagationPolicy"] = chance.choice(("Background", "Background", "Foreground"))
    uid = chance.choices(("", "right", "wrong"), (3, 4, 2))[0]
    version = chance.choices(("", "right", "old"), (6, 3, 2))[0]
    if "gracePeriodSeconds" in body:
        version = ""  # with both, a second delete is refused for an empty precondition
    return ProgramRequest("DELETE", resource, space, name, body, uid=uid, version=version)


def _read(chance: random.Random, resource: Resource, space: str, name: str) -> ProgramRequest:
    if chance.random() < 0.4:
        return ProgramRequest("GET", resource, space, name)
    params: list[tuple[str, str]] = []
    if chance.random() < 0.5:
        params.append(("limit", "1"))
    if chance.random() < 0.4:
        selector = chance.choice(("x", "!x", "x=1", "x!=1", "x in (1,2)", "y notin (2),x"))
        params.append(("labelSelector", selector))
    if chance.random() < 0.3:
        params.append(("fieldSelector", f"metadata.name={name}"))
    return ProgramRequest("GET", resource, space, "", params=tuple(params))


def _pod(chance: random.Random, _: Resource, space: str, name: str) -> ProgramRequest:
    """Writes of schedulers and kubelets."""
    if chance.random() < 0.5:
        body = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": name},
            "target": {"apiVersion": "v1", "kind": "Node", "name": "node-1"},
        }
        uid = chance.choices(("", "right", "wrong"), (2, 4, 1))[0]
        return ProgramRequest("POST", PODS, space, name, body, subresource="binding", uid=uid)
    phase = chance.choice(("Pending", "Running", "Succeeded", "Failed"))
    condition = {"type": "Ready", "status": chance.choice(("True", "False"))}
    body = {"status": {"phase": phase, "conditions": [condition]}, "spec": {"nodeName": "other"}}
    uid = chance.choices(("", "right", "wrong"), (4, 4, 1))[0]
    return ProgramRequest(
        "PATCH", PODS, space, name, body, STRATEGIC, subresource="status", uid=uid
    )


def _space(chance: random.Random, _: Resource, space: str, __: str) -> ProgramRequest:
    """The end of a namespace, in two steps."""
    if chance.random() < 0.5:
        uid = chance.choices(("right", "wrong"), (2, 1))[0]
        return ProgramRequest("DELETE", NAMESPACES, "", space, {"kind": "DeleteOptions"}, uid=uid)
    return ProgramRequest("PATCH", NAMESPACES, "", space, {"metadata": _labels(chance)}, MERGE)


def fresh(chance: random.Random, resource: Resource, name: str) -> Object:
    """Return an object of a kind as a client writes it."""
    body: Object = {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {"name": name, "labels": {"x": chance.choice("12")}},
    }
    if chance.random() < 0.3:
        body["metadata"]["annotations"] = {"note": chance.choice("12")}
    if resource is CONFIG_MAPS:
        body["data"] = {"k": str(chance.randrange(3))}
        if chance.random() < 0.15:
            body["immutable"] = True
    elif resource is SECRETS:
        body["stringData"] = {"k": str(chance.randrange(3))}
        body["type"] = chance.choice(("Opaque", "Opaque", "example.com/other"))
    elif resource is SERVICES:
        body["spec"] = {"ports": [{"port": 80}], "clusterIP": "None", "selector": {"app": "x"}}
    elif resource is LEASES:
        body["spec"] = {"holderIdentity": chance.choice("12"), "leaseDurationSeconds": 7}
    elif resource is PODS:
        image = f"example.com/i:{chance.randrange(2)}"
        body["spec"] = {"containers": [{"name": "main", "image": image}]}
    return body
