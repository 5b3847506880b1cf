"""Every delete below, judged: as it is seen to happen, and as the audit log says it was sent.

Owns what is known of super objects: whose each of them is, and which are no tenant's. No one in a
drill deletes below but the syncer and, of pods that are on their way out, the kubelet. So whatever
vanishes there was the syncer's doing. Judges by the tenants' ledgers alone. Hazard: configuration
that no pod needs any longer goes below although its tenant keeps it. Only what a running pod needs
must stay.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from tenancy import ownership, wellknown
from tenancy.ownership import TwinOwner
from tenancy.resources import CONFIG_MAPS, PODS, SECRETS, Resource
from tests.chaos.oracles import TERMINAL, Object, Violation, needs, title
from tests.chaos.processes.sides import SYNCED, DrillTenant

ChangeHandler = Callable[[str, Object], None]
_WHEN_NEEDED = (CONFIG_MAPS, SECRETS)
_BY_PLURAL = {resource.plural: resource for resource in SYNCED}


class DrillChecker:
    """Looks at one super cluster and its tenants."""

    def __init__(self, tenants: Sequence[DrillTenant]) -> None:
        self.tenants = tenants
        self.findings: list[Violation] = []
        self.deletes = 0
        """Deletes of the syncer's that were judged as they were sent."""
        self.unjudged = 0
        """Those of objects that came and went between two looks."""
        self.bystanders: dict[str, str] = {}
        """What is no tenant's, by UID: its version."""
        self._owners: dict[str, tuple[Resource, TwinOwner, bool]] = {}
        """Each super object ever seen, by UID, and whether it is a token, which we made."""
        self._ended: set[str] = set()
        self._pods: dict[str, tuple[int, Object]] = {}
        """Super pods, each with the version at which it was first seen."""

    def broke(self, rule: str, text: str) -> None:
        """Remember that a rule was broken."""
        self.findings.append(Violation(rule, text))

    # What is seen.

    def below(self, resource: Resource) -> ChangeHandler:
        """Return what hears of one kind in the super cluster."""

        def heard(kind: str, body: Object) -> None:
            metadata = body["metadata"]
            self._judge_bystander(resource, kind, metadata)
            owner = ownership.read_owner(metadata)
            if owner is not None:
                is_token = wellknown.TOKEN_SECONDS in metadata["annotations"]
                self._owners.setdefault(metadata["uid"], (resource, owner, is_token))
            if resource is PODS:
                self._note_pod(kind, body)
            if kind == "DELETED" or "deletionTimestamp" in metadata:
                self._judge_end(resource, metadata)

        return heard

    def above(self, tenant: DrillTenant, resource: Resource) -> ChangeHandler:
        """Return what hears of one kind in a tenant."""

        def heard(kind: str, body: Object) -> None:
            metadata = body["metadata"]
            is_ending = kind == "DELETED" or "deletionTimestamp" in metadata
            if is_ending and tenant.is_judged and metadata["uid"] not in tenant.asked:
                about = f"{tenant.side}: {title(resource, metadata)}"
                self.broke("wrong delete", f"{about} ({metadata['uid']}, {kind}) in the tenant")
                tenant.asked[metadata["uid"]] = 0.0  # said once

        return heard

    def _note_pod(self, kind: str, body: Object) -> None:
        metadata = body["metadata"]
        if kind == "DELETED":
            self._pods.pop(metadata["uid"], None)
            return
        first, _ = self._pods.get(metadata["uid"], (int(metadata["resourceVersion"]), body))
        self._pods[metadata["uid"]] = (first, body)

    def _judge_bystander(self, resource: Resource, kind: str, metadata: Object) -> None:
        version = self.bystanders.get(metadata["uid"])
        if version is not None and (kind == "DELETED" or metadata["resourceVersion"] != version):
            about = title(resource, metadata)
            self.broke("wrong delete", f"{about}, which is nobody's, was touched: {kind}")
            self.bystanders[metadata["uid"]] = metadata["resourceVersion"]

    def _judge_end(self, resource: Resource, metadata: Object) -> None:
        uid = metadata["uid"]
        known = self._owners.get(uid)
        if uid in self._ended or known is None or known[2]:
            return
        self._ended.add(uid)
        owner = known[1]
        tenant = self._of(owner)
        if tenant is None or owner.uid in tenant.asked:
            return
        about = f"{tenant.side}: {title(resource, metadata)}"
        if resource not in _WHEN_NEEDED:
            self.broke("wrong delete", f"{about}: nobody asked for it")
            return
        for pod in self._needing(tenant, resource, metadata):
            self.broke("wrong delete", f"{about}: the pod {pod} needs it")

    def _needing(self, tenant: DrillTenant, resource: Resource, metadata: Object) -> Iterator[str]:
        """Tell which pods were there before something was deleted, and needed it."""
        for first, pod in self._pods.values():
            about = pod["metadata"]
            owner = ownership.read_owner(about)
            if (
                owner is not None
                and about["namespace"] == metadata["namespace"]
                and first < int(metadata["resourceVersion"])
                and "deletionTimestamp" not in about
                and owner.uid not in tenant.asked
                and pod["status"].get("phase") not in TERMINAL
                and (resource, metadata["name"]) in needs(pod)
            ):
                yield about["name"]

    def _of(self, owner: TwinOwner) -> DrillTenant | None:
        return next((each for each in self.tenants if each.tenant.uid == owner.vc_uid), None)

    # What was sent.

    def sent(self, event: Object) -> None:
        """Judge a line of the super cluster's audit log: a delete that the syncer sent."""
        at = event["objectRef"]
        resource = _BY_PLURAL.get(at["resource"])
        if event["verb"] not in ("delete", "deletecollection") or resource is None:
            return
        if "requestObject" not in event and event["responseStatus"]["code"] >= 400:
            return  # turned away before anyone read what it says
        self.deletes += 1
        place = f"{resource.kind} {at.get('namespace', '')}/{at.get('name', '')}"
        told = ((event.get("requestObject") or {}).get("preconditions") or {}).get("uid", "")
        if not told:
            self.broke("wrong delete", f"{place}: a delete without a UID")
            return
        known = self._owners.get(told)
        tenant = self._of(known[1]) if known is not None else None
        if known is None or tenant is None:
            self.unjudged += 1
            return
        if known[2] or resource in _WHEN_NEEDED:
            return
        asked = tenant.asked.get(known[1].uid)
        received = datetime.fromisoformat(event["requestReceivedTimestamp"]).timestamp()
        if asked is None:
            self.broke("wrong delete", f"{tenant.side}: {place}: sent, and nobody asked for it")
        elif asked > received:
            early = asked - received
            self.broke("wrong delete", f"{tenant.side}: {place}: sent {early:.3f} s too early")


class AuditLogTail:
    """The end of an audit log, line by line. A server that was killed may have left half a one."""

    def __init__(self, log: Path, user: str) -> None:
        self._log, self._user = log, user
        self._place = 0
        self._rest = b""

    def writes(self) -> list[Object]:
        """Return what the user has written, or tried to, since the last look."""
        if not self._log.exists():
            return []
        with self._log.open("rb") as log:
            log.seek(self._place)
            content = log.read()
        self._place += len(content)
        *lines, self._rest = (self._rest + content).split(b"\n")
        return [event for line in lines if (event := self._event(line)) is not None]

    def _event(self, line: bytes) -> Object | None:
        try:
            event: Any = json.loads(line)
        except ValueError:
            return None
        is_whole = event.get("stage") == "ResponseComplete" and "objectRef" in event
        is_write = event.get("verb") in ("create", "update", "patch", "delete", "deletecollection")
        return event if is_whole and is_write and event["user"]["username"] == self._user else None
