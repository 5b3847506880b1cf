"""Events of the super cluster that are recreated in the tenant.

Pure except for a token bucket. The Events are about a tenant's pods, claims, Services and
Ingresses. Owns the selection of Events and their fields. Must not know how they are posted.

Hazard: messages of super components name super namespaces and must be scrubbed. An Event of an
object without a tenant object, or of a container that the tenant did not write, must stay in the
super cluster. Otherwise names of the super cluster reach the tenant.
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
from tenancy.control_characters import escape_control_characters

SYNCED_KINDS = frozenset({"Ingress", "PersistentVolumeClaim", "Pod", "Service"})
"""Kinds of twins whose Events are synced back to the tenant."""
_COPIED_FIELDS = (
    "count",
    "eventTime",
    "firstTimestamp",
    "lastTimestamp",
    "type",
)
_SANITIZED_FIELDS = ("action", "reason", "reportingComponent", "reportingInstance")
"""Texts that are copied without names of other owners. Any component may write any text."""
_UPDATED_FIELDS = ("count", "lastTimestamp", "message", "series", "type")
"""Fields that change while an Event recurs. Both Event APIs keep it in one object."""
_CONTAINER_PATH = re.compile(r"spec\.\w*[cC]ontainers\{(.+)\}")
"""Field path by which an Event names the container of its pod."""
_SERIES_FIELDS = ("count", "lastObservedTime")

TextSanitizer = Callable[[str], str]


def get_regarding(event: Mapping[str, Any]) -> tuple[str, str, str, str]:
    """Return kind, namespace, name and UID of the object that an Event is about."""
    about = event.get("involvedObject") or {}
    return (
        str(about.get("kind", "")),
        str(about.get("namespace", "")),
        str(about.get("name", "")),
        str(about.get("uid", "")),
    )


def build_tenant_event(
    event: Mapping[str, Any],
    twin: Mapping[str, Any],
    view: TenantView,
    *,
    name: str,
    sanitize: TextSanitizer,
) -> Object | None:
    """Return the Event for the tenant. `twin` is the super object's metadata.

    `name` is the name of the tenant object. `sanitize` removes names of other owners from texts.
    Returns None if the object is not the one that the Event is about, or the container is not the
    tenant's.
    """
    owner = ownership.read_owner(twin, view.tenant.super_cluster_uid)
    uid = get_regarding(event)[3]
    if owner is None or owner.vc_uid != view.tenant.uid or (uid and uid != twin["uid"]):
        return None
    about = event["involvedObject"]
    if about.get("kind") == "Pod" and not _is_own_part(about.get("fieldPath"), twin):
        return None
    # A volume is named after the UID of its claim, and the tenant sees that name.
    is_claim = about.get("kind") == claims.CLAIM
    pairs = object_meta.build_name_pairs(
        view.tenant,
        view.get_super_namespace(owner.namespace),
        owner.namespace,
        *(() if is_claim else ((twin["uid"], owner.uid),)),
    )
    pairs += claim_status.build_volume_name_pairs(twin.get("annotations") or {})

    def sanitize_text(text: Any) -> str:
        return object_meta.replace_names(sanitize(str(text or "")), pairs)

    found: Object = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {
            "name": object_meta.replace_names(event["metadata"]["name"], pairs),
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
        "message": escape_control_characters(sanitize_text(event.get("message"))),
        **{field: event[field] for field in _COPIED_FIELDS if event.get(field) is not None},
        **{field: sanitize_text(event[field]) for field in _SANITIZED_FIELDS if event.get(field)},
    }
    source = event.get("source") or {}
    if source:
        found["source"] = {
            field: sanitize_text(source[field])
            for field in ("component", "host")
            if source.get(field)
        }
    if event.get("series"):
        series = event["series"]
        found["series"] = {field: series[field] for field in _SERIES_FIELDS if field in series}
    return found


def _is_own_part(path: Any, twin: Mapping[str, Any]) -> bool:
    """Return whether a field path names no part of a pod, or a container that the tenant wrote."""
    if not path:
        return True
    found = _CONTAINER_PATH.fullmatch(str(path))
    return found is not None and found[1] in ephemeral_containers.list_served_names(
        {"metadata": twin}
    )


def build_update(told_event: Mapping[str, Any]) -> Object:
    """Return the merge patch that updates an Event of the tenant to its present state."""
    return {field: told_event[field] for field in _UPDATED_FIELDS if field in told_event}


class EventBudget:
    """Token bucket. Events over the limit are dropped, never delayed."""

    def __init__(
        self,
        *,
        per_second: float = builtin_policy.EVENTS_PER_SECOND,
        burst: float = builtin_policy.EVENTS_BURST,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._per_second, self._burst, self._clock = per_second, burst, clock
        self._tokens, self._refilled_at = float(burst), clock()

    def take_token(self) -> bool:
        """Consume one token. Return False if there is none."""
        now = self._clock()
        self._tokens = min(self._burst, self._tokens + (now - self._refilled_at) * self._per_second)
        self._refilled_at = now
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True
