"""Super Events about a tenant's pods and services, told again in the tenant.

Pure but for a token bucket. Owns which Events go up and what of them. Must not know how they are
posted. Hazard: messages are written by super components and name super namespaces; they are
scrubbed, and an Event whose object cannot be mapped stays below.
"""

import time
from collections.abc import Callable, Mapping
from typing import Any

from kubeio import Object
from syncer import policy, translate
from syncer.view import TenantView
from tenancy import ownership

KINDS = frozenset({"Pod", "Service"})
_COPIED = (
    "action",
    "count",
    "eventTime",
    "firstTimestamp",
    "lastTimestamp",
    "reason",
    "reportingComponent",
    "reportingInstance",
    "source",
    "type",
)


def regards(event: Mapping[str, Any]) -> tuple[str, str, str, str]:
    """Return kind, namespace, name and UID of the object that an Event is about."""
    about = event.get("involvedObject") or {}
    return (
        str(about.get("kind", "")),
        str(about.get("namespace", "")),
        str(about.get("name", "")),
        str(about.get("uid", "")),
    )


def told(event: Mapping[str, Any], twin: Mapping[str, Any], view: TenantView) -> Object | None:
    """Return the Event for the tenant; `twin` is the super object's metadata.

    None when the object is not the one that the Event is about.
    """
    owner = ownership.owner_of(twin)
    _, _, name, uid = regards(event)
    if owner is None or owner.vc_uid != view.tenant.uid or (uid and uid != twin["uid"]):
        return None
    about = event["involvedObject"]
    pairs = translate.names_of(
        view.tenant,
        view.super_namespace(owner.namespace),
        owner.namespace,
        (twin["uid"], owner.uid),
    )
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": event["metadata"]["name"], "namespace": owner.namespace},
        "involvedObject": {
            "apiVersion": about.get("apiVersion", "v1"),
            "kind": about["kind"],
            "namespace": owner.namespace,
            "name": name,
            "uid": owner.uid,
            **({"fieldPath": about["fieldPath"]} if about.get("fieldPath") else {}),
        },
        "message": translate.scrub(str(event.get("message", "")), pairs),
        **{field: event[field] for field in _COPIED if event.get(field) is not None},
    }


class Budget:
    """A token bucket: what is beyond it is dropped and never delayed."""

    def __init__(
        self,
        *,
        per_second: float = policy.EVENTS_PER_SECOND,
        burst: float = policy.EVENTS_BURST,
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
