"""Differences of a twin from its tenant object, and of a tenant's status from its twin.

An oracle of its own that uses no code of the syncer. Pure. Objects are dicts as API servers return
them.
"""

from __future__ import annotations

from typing import Any

from tenancy import wellknown
from tenancy.resources import CONFIG_MAPS, PODS, SECRETS, SERVICES, Resource

Object = dict[str, Any]

TERMINAL = frozenset({"Succeeded", "Failed"})
GATEWAY = "gateway.networking.k8s.io/gateway-name"
"""A label that has a translated key on twins of pods."""


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
