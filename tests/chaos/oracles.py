"""State that both sides must have once every fault is over, and the violations of it.

Owns the rules for a tenant object, its twin and what tenants read. Both drivers check them, each
with what it knows besides. Nothing of the syncer's is asked. Pure. Objects are dicts as API servers
give them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, NamedTuple

from tenancy import wellknown
from tenancy.resources import CONFIG_MAPS, PODS, SECRETS, SERVICES, Resource

Object = dict[str, Any]

TERMINAL = frozenset({"Succeeded", "Failed"})
GATEWAY = "gateway.networking.k8s.io/gateway-name"
"""A label that has a translated key on twins of pods."""
_NAMES = re.compile(r"[0-9a-f]{8}-[-0-9a-f]+|[-.\w]*\d[-.\w]*|\S*/\S*|\b[abc]\b|canary\d-\d")


class Violation(NamedTuple):
    """Something that must not be."""

    rule: str
    """`lost`, `duplicate`, `orphan`, `wrong delete`, or what else. An invariant in the machine."""
    text: str

    @property
    def kind(self) -> str:
        """The rule and the words, without names and numbers: whether two violations are alike."""
        return f"{self.rule} {_NAMES.sub('', self.text)}"


def title(resource: Resource, metadata: Object) -> str:
    """Return the name of an object in messages."""
    return f"{resource.kind} {metadata.get('namespace', '')}/{metadata['name']}"


def check_object(
    where: str, resource: Resource, body: Object, twin: Object | None, *, is_wanted: bool
) -> list[Violation]:
    """Return what is wrong at rest with a tenant object and its twin.

    `is_wanted` is True if the object must have a twin.
    """
    about = f"{where}: {title(resource, body['metadata'])}"
    if "deletionTimestamp" in body["metadata"]:
        return [Violation("unfinished", f"{about} is still on its way out")]
    if twin is None:
        return [Violation("lost", f"{about} has no twin")] if is_wanted else []
    found = [
        Violation("different", f"{about}: {each}") for each in differences(resource, body, twin)
    ]
    if resource is PODS:
        found += [Violation("untold", f"{about}: {each}") for each in untold(body, twin)]
    return found


def check_twin(
    where: str, resource: Resource, twin: Object, uid: str, *, is_alive: bool
) -> list[Violation]:
    """Return what is wrong at rest with a super object that records the UID of a tenant object."""
    about = f"{where}: {title(resource, twin['metadata'])}"
    if not is_alive:
        return [Violation("orphan", f"{about}: its tenant object {uid} is gone")]
    if "deletionTimestamp" in twin["metadata"]:
        return [Violation("orphan", f"{about} is on its way out and stays")]
    return []


def is_wanted(resource: Resource, body: Object, pods: Iterable[Object]) -> bool:
    """Return whether a tenant object must have a twin. `pods` are those of its tenant."""
    metadata = body["metadata"]
    if resource is SERVICES:
        return (metadata["namespace"], metadata["name"]) != ("default", "kubernetes")
    if resource is PODS:
        return body["status"].get("phase") not in TERMINAL
    if resource not in (CONFIG_MAPS, SECRETS):
        return True
    return any(
        pod["metadata"]["namespace"] == metadata["namespace"]
        and "deletionTimestamp" not in pod["metadata"]
        and pod["status"].get("phase") not in TERMINAL
        and (resource, metadata["name"]) in needs(pod)
        for pod in pods
    )


def needs(pod: Object) -> set[tuple[Resource, str]]:
    """Return kind and name of what a pod has among its volumes."""
    found: set[tuple[Resource, str]] = set()
    for volume in pod["spec"].get("volumes") or ():
        if "configMap" in volume:
            found.add((CONFIG_MAPS, volume["configMap"]["name"]))
        if "secret" in volume:
            found.add((SECRETS, volume["secret"]["secretName"]))
    return found


def is_labelled(metadata: Object) -> bool:
    """Return whether an object has the label by which the syncer's watches find it."""
    return (metadata.get("labels") or {}).get(wellknown.CONTROLLED) == "true"


def differences(resource: Resource, body: Object, twin: Object) -> list[str]:
    """I1: return the differences between a twin and its tenant object."""
    found = []
    if not is_labelled(twin["metadata"]):
        return ["the twin lacks our labels"]
    for key, value in (body["metadata"].get("labels") or {}).items():
        if key == GATEWAY:
            key = wellknown.translate_label_key(key)  # noqa: PLW2901 - as the twin has it
        if ("/" not in key or wellknown.is_reserved_key(key)) and (
            twin["metadata"].get("labels") or {}
        ).get(key) != value:
            found.append(f"label {key} is not {value} below")
    if resource in (CONFIG_MAPS, SECRETS):
        if (body.get("data") or {}) != (twin.get("data") or {}):
            found.append("the data are other ones below")
    elif resource is SERVICES:
        found += [
            f"spec.{field} is another one below"
            for field in ("selector", "clusterIP")
            if body["spec"].get(field) != twin["spec"].get(field)
        ]
        if _ports(body) != _ports(twin):
            found.append("the ports are other ones below")
    elif resource is PODS:
        images = [[each["image"] for each in pod["spec"]["containers"]] for pod in (body, twin)]
        if images[0] != images[1]:
            found.append(f"the images are {images[0]}, below {images[1]}")
    return found


def untold(pod: Object, twin: Object) -> list[str]:
    """I4: return what a tenant reads of a pod that its twin does not have."""
    above, below = pod["status"], twin["status"]
    found = [
        f"status.{field} is {above.get(field)}, below {below.get(field)}"
        for field in ("phase", "podIP")
        if above.get(field) != below.get(field)
    ]
    node = twin["spec"].get("nodeName")
    if pod["spec"].get("nodeName") != node:
        found.append(f"the node is {pod['spec'].get('nodeName')}, below {node}")
    ready = [_ready(status) for status in (above, below)]
    if ready[0] != ready[1]:
        found.append(f"Ready is {ready[0]}, below {ready[1]}")
    return found


def _ready(status: Object) -> str:
    found = [each["status"] for each in status.get("conditions") or () if each["type"] == "Ready"]
    return found[0] if found else ""


def _ports(service: Object) -> list[Any]:
    return [each["port"] for each in service["spec"].get("ports") or ()]
