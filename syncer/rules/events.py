"""Super Events about a tenant's pods, Services and Ingresses, told again in the tenant.

Pure but for a token bucket. Owns which Events go up and what of them. Must not know how they are
posted. Hazard: messages are written by super components and name super namespaces; they are
scrubbed, and an Event whose object cannot be mapped stays below, as does one about a container that
the tenant did not write.
"""

import re
import time
from collections.abc import Callable, Mapping
from typing import Any

from kubeio import Object
from syncer.model import builtin_policy, object_meta
from syncer.model.tenant_view import TenantView
from syncer.rules.pods import ephemeral_containers
from syncer.rules.storage import claim_status, claims
from tenancy import ownership

KINDS = frozenset({"Ingress", "PersistentVolumeClaim", "Pod", "Service"})
"""Kinds of twins whose Events go up."""
_COPIED = (
    "count",
    "eventTime",
    "firstTimestamp",
    "lastTimestamp",
    "type",
)
_TEXTS = ("action", "reason", "reportingComponent", "reportingInstance")
"""Copied without names that are not the tenant's: any component may write what it likes."""
_GROWING = ("count", "lastTimestamp", "message", "series", "type")
"""What changes while the same thing goes on happening; both APIs keep it in one object."""
_CONTAINER = re.compile(r"spec\.\w*[cC]ontainers\{(.+)\}")
"""How an Event names the container of a pod that it is about."""
_SERIES = ("count", "lastObservedTime")

Clean = Callable[[str], str]


def regards(event: Mapping[str, Any]) -> tuple[str, str, str, str]:
    """Return kind, namespace, name and UID of the object that an Event is about."""
    about = event.get("involvedObject") or {}
    return (
        str(about.get("kind", "")),
        str(about.get("namespace", "")),
        str(about.get("name", "")),
        str(about.get("uid", "")),
    )


def told(
    event: Mapping[str, Any],
    twin: Mapping[str, Any],
    view: TenantView,
    *,
    name: str,
    clean: Clean,
) -> Object | None:
    """Return the Event for the tenant; `twin` is the super object's metadata.

    `name` is the tenant object's; `clean` takes names out of texts that are not the tenant's. None
    when the object is not the one that the Event is about, or the container is not the tenant's.
    """
    owner = ownership.owner_of(twin, view.tenant.registration)
    uid = regards(event)[3]
    if owner is None or owner.vc_uid != view.tenant.uid or (uid and uid != twin["uid"]):
        return None
    about = event["involvedObject"]
    if about.get("kind") == "Pod" and not _is_own_part(about.get("fieldPath"), twin):
        return None
    # Volumes are called after the UID of their claim and are shown by that name.
    is_claim = about.get("kind") == claims.CLAIM
    pairs = object_meta.names_of(
        view.tenant,
        view.super_namespace(owner.namespace),
        owner.namespace,
        *(() if is_claim else ((twin["uid"], owner.uid),)),
    )
    pairs += claim_status.volume_names(twin.get("annotations") or {})

    def scrubbed(text: Any) -> str:
        return object_meta.scrub(clean(str(text or "")), pairs)

    found: Object = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {
            "name": object_meta.scrub(event["metadata"]["name"], pairs),
            "namespace": owner.namespace,
        },
        "involvedObject": {
            "apiVersion": about.get("apiVersion", "v1"),
            "kind": about["kind"],
            "namespace": owner.namespace,
            "name": name,
            "uid": owner.uid,
            **({"fieldPath": about["fieldPath"]} if about.get("fieldPath") else {}),
        },
        "message": scrubbed(event.get("message")),
        **{field: event[field] for field in _COPIED if event.get(field) is not None},
        **{field: scrubbed(event[field]) for field in _TEXTS if event.get(field)},
    }
    source = event.get("source") or {}
    if source:
        found["source"] = {
            field: scrubbed(source[field]) for field in ("component", "host") if source.get(field)
        }
    if event.get("series"):
        series = event["series"]
        found["series"] = {field: series[field] for field in _SERIES if field in series}
    return found


def _is_own_part(path: Any, twin: Mapping[str, Any]) -> bool:
    """Tell whether a field path names no part of a pod, or a container that the tenant wrote."""
    if not path:
        return True
    found = _CONTAINER.fullmatch(str(path))
    return found is not None and found[1] in ephemeral_containers.served_names({"metadata": twin})


def growth(told_event: Mapping[str, Any]) -> Object:
    """Return the merge patch that brings an Event told before to its present state."""
    return {field: told_event[field] for field in _GROWING if field in told_event}


class Budget:
    """A token bucket: what is beyond it is dropped and never delayed."""

    def __init__(
        self,
        *,
        per_second: float = builtin_policy.EVENTS_PER_SECOND,
        burst: float = builtin_policy.EVENTS_BURST,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._per_second, self._burst, self._clock = per_second, burst, clock
        self._left, self._at = float(burst), clock()

    def take(self) -> bool:
        """Tell whether one more may pass."""
        now = self._clock()
        self._left = min(self._burst, self._left + (now - self._at) * self._per_second)
        self._at = now
        if self._left < 1:
            return False
        self._left -= 1
        return True
