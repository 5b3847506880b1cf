"""The status of a VirtualCluster: conditions, and the phase derived from them.

Owns the words of phases and the shape of the document. Pure. Hazard: the syncer owns conditions in
the same list. This document names only the manager's conditions, and server-side apply keeps the
rest.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Literal

from tenancy import conditions, wellknown
from tenancy.conditions import Condition
from tenancy.specs import VirtualClusterPhase
from vcmanager.runtime.object_metadata import is_subset

RECONCILING, STALLED = "Reconciling", "Stalled"
"""Condition types that tools for kstatus read."""

OWN_CONDITIONS = (
    wellknown.READY,
    wellknown.CERTIFICATES_READY,
    wellknown.ETCD_READY,
    wellknown.API_SERVER_READY,
    wellknown.CONTROLLER_MANAGER_READY,
    wellknown.DNS_READY,
    wellknown.METRICS_READY,
    wellknown.STORE_EPHEMERAL,
    wellknown.NETWORK_POLICIES_ENFORCED,
    wellknown.CONTROL_PLANE_UP_TO_DATE,
    wellknown.STORE_FILLING,
    wellknown.ETCD_MEMBERS_READY,
    wellknown.PAUSED,
    wellknown.EXPIRING,
    wellknown.HOSTNAME_ACCEPTED,
    wellknown.AUTHENTICATION_READY,
    wellknown.KUBECONFIG_SECRETS_READY,
    wellknown.DNS_CONFIG_ACCEPTED,
    RECONCILING,
    STALLED,
)
_OPTIONAL_CONDITIONS = frozenset(
    {
        wellknown.METRICS_READY,
        wellknown.AUTHENTICATION_READY,
        wellknown.KUBECONFIG_SECRETS_READY,
    }
)
"""Conditions of optional parts. Neither Ready nor Reconciling waits for them."""
ACCESS_CONDITIONS = frozenset(
    {
        wellknown.HOSTNAME_ACCEPTED,
        wellknown.AUTHENTICATION_READY,
        wellknown.KUBECONFIG_SECRETS_READY,
        wellknown.DNS_CONFIG_ACCEPTED,
    }
)
"""Conditions that stay when a reconcile ends early. Otherwise their return would post an Event."""
_NON_COMPONENT_CONDITIONS = _OPTIONAL_CONDITIONS | {
    wellknown.HOSTNAME_ACCEPTED,
    wellknown.DNS_CONFIG_ACCEPTED,
    wellknown.STORE_EPHEMERAL,
    wellknown.NETWORK_POLICIES_ENFORCED,
    wellknown.CONTROL_PLANE_UP_TO_DATE,
    wellknown.STORE_FILLING,
    wellknown.ETCD_MEMBERS_READY,
    wellknown.PAUSED,
    wellknown.EXPIRING,
    wellknown.READY,
}
_DNS_START_WINDOW = timedelta(minutes=5)
_SUMMARY_CONDITIONS = frozenset({wellknown.READY, RECONCILING, STALLED})
_MAX_MESSAGE_LENGTH = 4096
_INVALID_REASON_CHARACTERS = re.compile(r"^[^A-Za-z]+|[^A-Za-z0-9_]")
"""Characters that the API refuses in a reason. Reasons of pods and Events have other sources."""

StatusValue = Literal["True", "False", "Unknown"]
EventRow = tuple[Literal["Normal", "Warning"], str, str]
"""Type, reason and message of an Event."""


@dataclass(slots=True, kw_only=True)
class ReconcileStatus:
    """Result of one reconcile. Each phase adds to it, and it is written once."""

    generation: int
    now: str
    """RFC 3339."""
    cluster_namespace: str = ""
    endpoint: str = ""
    api_server_address: str = ""
    service_cidr: str = ""
    version: str = ""
    ended_pause: str = ""
    """`status.endedPause`. Present with the reason PauseTooLong of the condition Paused."""
    restore: dict[str, Any] | None = None
    """`status.restore`. None: as before."""
    failing_conditions: set[str] = field(default_factory=set)
    """Types of conditions with a failure, as opposed to unfinished work."""
    _conditions: dict[str, Condition] = field(default_factory=dict)

    def set_condition(
        self, kind: str, status: StatusValue, reason: str, message: str, *, is_failure: bool = False
    ) -> None:
        """Set a condition. A condition that is already set stays."""
        if kind in self._conditions:
            return
        if is_failure:
            self.failing_conditions.add(kind)
        self._conditions[kind] = conditions.build_condition(
            kind,
            status,
            _INVALID_REASON_CHARACTERS.sub("", reason) or "Unknown",
            message[:_MAX_MESSAGE_LENGTH] or "no message",
            now=self.now,
            generation=self.generation,
        )

    def carry_over_all(self, old: Mapping[str, Any]) -> None:
        """Repeat all old conditions, the summaries too, because nothing was checked.

        They keep their generation. Otherwise a change of the spec would seem to be complete.
        """
        for each in old.get("conditions") or ():
            kind = each.get("type")
            if kind not in OWN_CONDITIONS or kind == wellknown.PAUSED or kind in self._conditions:
                continue
            self.set_condition(kind, each["status"], each["reason"], each["message"])
            self._conditions[kind]["observedGeneration"] = each.get("observedGeneration", 0)

    def carry_over(self, old: Mapping[str, Any], kinds: Collection[str] = ()) -> None:
        """Repeat the old conditions of what was not checked this time, or those of some types.

        Server-side apply removes each condition that is left out.
        """
        wanted = kinds or [each for each in OWN_CONDITIONS if each not in _SUMMARY_CONDITIONS]
        for each in old.get("conditions") or ():
            if each.get("type") in wanted:
                if each["type"] == wellknown.PAUSED and wellknown.PAUSED not in self._conditions:
                    self.ended_pause = old.get("endedPause", "")
                self.set_condition(each["type"], each["status"], each["reason"], each["message"])

    def summarize(
        self,
        *,
        blocked: tuple[str, str] | None,
        is_stalled: bool,
        is_deleting: bool,
        old: Mapping[str, Any] | None = None,
    ) -> None:
        """Set the summaries: Ready, Reconciling, Stalled.

        `blocked` is the reason and message of a phase that could not continue, and `old` is the
        previous status.
        """
        missing = [
            each
            for kind, each in self._conditions.items()
            if each["status"] != "True" and kind not in _NON_COMPONENT_CONDITIONS
        ]
        if blocked is None and all(self._is_pending(each["type"], old or {}) for each in missing):
            self.set_condition(
                wellknown.READY, "True", "TenantControlPlaneRunning", _RUNNING_MESSAGE
            )
            if not missing:
                return
        reason, message = blocked or (missing[0]["reason"], missing[0]["message"])
        self.set_condition(wellknown.READY, "False", reason, message)  # unless it is already True
        if reason == wellknown.ASLEEP:
            return  # as the spec wants it, so nothing is in progress
        if is_stalled:
            self.set_condition(STALLED, "True", reason, message)
        else:
            word = "Deleting" if is_deleting else "InProgress"
            self.set_condition(RECONCILING, "True", word, message)

    def _is_pending(self, kind: str, old: Mapping[str, Any]) -> bool:
        """Return whether Ready need not wait for a part that is still starting.

        This applies to the name server only, for 5 min and while it has no failure. A tenant that
        has lost Ready becomes ready again only when all parts are. Otherwise Ready would flap with
        a name server that starts and exits.
        """
        if kind != wellknown.DNS_READY or kind in self.failing_conditions:
            return False
        found = old.get("conditions")
        ready, before = (conditions.find_condition(found, each) for each in (wellknown.READY, kind))
        if old.get("phase") == "Running" and ready is not None and ready["status"] == "False":
            return False
        if before is None or before["status"] == "True":
            return True
        since = conditions.parse_transition_time(before)
        return since is not None and datetime.fromisoformat(self.now) - since < _DNS_START_WINDOW

    def get_condition(self, kind: str) -> Condition | None:
        """Return a condition, or None if it is not set."""
        return self._conditions.get(kind)

    def is_true(self, kind: str) -> bool:
        """Return whether a condition is set and True."""
        return self._conditions.get(kind, {}).get("status") == "True"

    @property
    def is_settled(self) -> bool:
        """Return whether no work is pending and nothing is stalled. Valid after `summarize`."""
        return RECONCILING not in self._conditions and STALLED not in self._conditions

    @property
    def is_complete(self) -> bool:
        """Return whether the optional parts work as well."""
        return not any(
            each["status"] != "True"
            for kind, each in self._conditions.items()
            if kind in _OPTIONAL_CONDITIONS
        )

    def build_status(self, old: Mapping[str, Any]) -> dict[str, Any]:
        """Return the status, with the transition times of unchanged conditions from the old one."""
        listed = [self._conditions[kind] for kind in OWN_CONDITIONS if kind in self._conditions]
        made = conditions.carry_transition_times(old.get("conditions"), listed)
        phase, reason, message = self._compute_phase(old)
        texts = {
            "phase": phase,
            "reason": reason,
            "message": message,
            "clusterNamespace": self.cluster_namespace or old.get("clusterNamespace", ""),
            "endpoint": self.endpoint or old.get("endpoint", ""),
            "apiServerAddress": self.api_server_address or old.get("apiServerAddress", ""),
            "serviceCidr": self.service_cidr or old.get("serviceCidr", ""),
            "version": self.version or old.get("version", ""),
            "endedPause": self.ended_pause,
        }
        restore = self.restore or old.get("restore")
        return {
            **{key: text for key, text in texts.items() if text},
            **({"restore": restore} if restore else {}),
            "observedGeneration": self.generation,
            "conditions": made,
        }

    def _compute_phase(self, old: Mapping[str, Any]) -> tuple[VirtualClusterPhase, str, str]:
        """Return phase, reason and message in upstream's words.

        A tenant that ran once stays Running while a part of it restarts.
        """
        ready = self._conditions[wellknown.READY]
        if ready["status"] == "True":
            return "Running", "TenantControlPlaneRunning", _RUNNING_MESSAGE
        if ready["reason"] == wellknown.ASLEEP:
            return "Asleep", wellknown.ASLEEP, ready["message"]
        if STALLED in self._conditions:
            return "Error", "TenantControlPlaneError", ready["message"]
        if old.get("phase") == "Running":
            return "Running", ready["reason"], ready["message"]
        return "Pending", "ClusterCreating", ready["message"]


_RUNNING_MESSAGE = "The tenant control plane is running."


def is_status_current(document: Mapping[str, Any], old: Mapping[str, Any]) -> bool:
    """Return whether the status on the server already has these and no other own conditions."""
    mine = [each for each in old.get("conditions") or () if each.get("type") in OWN_CONDITIONS]
    return _index_by_type(mine) == _index_by_type(document["conditions"]) and all(
        is_subset(value, old.get(key)) for key, value in document.items() if key != "conditions"
    )


def iterate_events(
    document: Mapping[str, Any], old: Mapping[str, Any], failing: Collection[str]
) -> Iterator[EventRow]:
    """Yield the Events of a changed status: parts that became ready, and failures."""
    for each in document["conditions"]:
        kind = each["type"]
        before = conditions.find_condition(old.get("conditions"), kind) or {}
        is_new = (before.get("status"), before.get("reason")) != (each["status"], each["reason"])
        if not is_new:
            continue
        if each["status"] == "True" and kind in _ANNOUNCED_CONDITIONS:
            yield "Normal", kind, each["message"]
        elif kind == wellknown.READY and each["reason"] == wellknown.ASLEEP:
            yield "Normal", wellknown.ASLEEP, each["message"]
        elif kind in failing or (kind in _WARNING_CONDITIONS and each["status"] == "True"):
            yield "Warning", each["reason"], each["message"]


_WARNING_CONDITIONS = frozenset(
    {STALLED, wellknown.STORE_EPHEMERAL, wellknown.STORE_FILLING, wellknown.EXPIRING}
)
_ANNOUNCED_CONDITIONS = frozenset(
    {
        wellknown.READY,
        wellknown.ETCD_READY,
        wellknown.API_SERVER_READY,
        wellknown.CONTROLLER_MANAGER_READY,
        wellknown.DNS_READY,
        wellknown.METRICS_READY,
        wellknown.HOSTNAME_ACCEPTED,
        wellknown.AUTHENTICATION_READY,
        wellknown.KUBECONFIG_SECRETS_READY,
    }
)


def _index_by_type(listed: Iterable[Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
    return {each["type"]: each for each in listed}
