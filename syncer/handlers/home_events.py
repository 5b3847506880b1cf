"""Handlers for watch events that only the home cluster has: which event queues which key.

Owns the subscriptions to resources of the home cluster only. Must not decide or write: a handler
only queues keys.
"""

from collections.abc import Mapping
from functools import partial

from kubeio.cache.store import Entry
from syncer.clusters.home_cluster import Home
from syncer.handlers import dependents
from syncer.handlers.super_events import SuperWiring
from syncer.handlers.tenant_events import suspect
from syncer.model.keys import ADDRESS, NODE, VOLUME
from syncer.rules.network.cluster_ips import parsed
from syncer.rules.nodes.node_agents import registration_of as served
from syncer.rules.placement.target_node import name_of
from syncer.rules.storage import claims, volumes
from syncer.safety.expectations import News, Side
from syncer.tenants.session import Session
from tenancy import ownership, wellknown


class HomeWiring(SuperWiring):
    """Routes events of the home cluster to all present sessions."""

    def __init__(
        self,
        home: Home,
        sessions: Mapping[str, Session],
        everywhere: Mapping[str, Mapping[str, Session]] | None = None,
    ) -> None:
        """`sessions` are those of the home cluster, by the UID of the VirtualCluster.

        `everywhere` has those of all super clusters by name, because the agents of targets run
        here.
        """
        super().__init__(home, sessions)
        self._home = home
        self._everywhere = everywhere or {}

    def subscribe(self) -> None:
        """Subscribe to every cache of the home cluster."""
        super().subscribe()
        below = self._home
        below.nodes.subscribe(self._node_changed)
        below.agent_pods.subscribe(self._agent_changed)
        below.agent_events.subscribe(self._agent_told)
        below.addresses.subscribe(self._address_changed)
        below.volumes.subscribe(self._volume_changed)
        below.stores[claims.CLAIM].subscribe(self._super_claim_changed)
        for store in (below.stores["Ingress"], below.other_ingresses):
            store.subscribe(self._hosts_changed)
        for kind, store in below.classes.items():
            store.subscribe(partial(self._class_changed, kind))

    def _hosts_changed(self, old: Entry | None, new: Entry | None, _: bool) -> None:
        dependents.hosts_changed(self.sessions.values(), old, new)

    def _node_changed(self, old: Entry | None, new: Entry | None, live: bool) -> None:
        entry = new or old
        if entry is not None:
            dependents.super_node_changed(self.sessions.values(), old, new, low=not live)
            self._node_touched(entry.name, low=not live)

    def _agent_changed(self, old: Entry | None, new: Entry | None, live: bool) -> None:
        nodes = {
            str((entry.decode().get("spec") or {}).get("nodeName") or "")
            for entry in (old, new)
            if entry is not None
        }
        for node in nodes - {""}:
            self._node_touched(node, low=not live)
        for registration in {each for entry in (old, new) if entry for each in served(entry)}:
            self._target_touched(registration, low=not live)

    def _target_touched(self, registration: str, *, low: bool) -> None:
        for sessions in self._everywhere.values():
            for session in sessions.values():
                if session.target is not None and session.target.registration == registration:
                    session.add(session.key(NODE, "", name_of(session.name)), low=low)

    def _agent_told(self, old: Entry | None, new: Entry | None, live: bool) -> None:
        entry = new or old
        node = self._home.agents.concerned(entry) if entry is not None else ""
        if node:
            self._node_touched(node, low=not live)

    def _node_touched(self, node: str, *, low: bool) -> None:
        for session in self.sessions.values():
            is_shown = session.stores[NODE].get("", node) is not None
            if session.exposes_all or is_shown or session.pods.is_on_node(node):
                session.add(session.key(NODE, "", node), low=low)

    def _address_changed(self, old: Entry | None, new: Entry | None, live: bool) -> None:
        entry = new or old
        address = parsed(entry.name) if entry is not None else None
        if entry is None or address is None:
            return
        for session in self.sessions.values():
            if address in session.view.slice:
                session.add(session.key(ADDRESS, "", entry.name), low=not live)

    def _class_changed(self, kind: str, old: Entry | None, new: Entry | None, live: bool) -> None:
        entry = new or old
        if entry is None:
            return
        for session in self.sessions.values():
            key = session.key(kind, "", entry.name)
            session.wake(key)
            session.add(key, low=not live)
            dependents.class_changed(session, kind, entry.name, low=not live)

    def _volume_changed(self, old: Entry | None, new: Entry | None, live: bool) -> None:
        """Queue a volume in the tenant that wrote it and in the tenant whose claim it is for."""
        for entry in (old, new):
            if entry is None:
                continue
            writer = self.sessions.get(entry.labels.get(wellknown.VC_UID, ""))
            if writer is not None:
                key = writer.key(VOLUME, "", entry.annotations.get(wellknown.VOLUME, ""))
                is_ours = writer.expectations.seen(Side.SUPER, key, new) is not News.FOREIGN
                if entry is old and not is_ours:
                    suspect(writer, Side.SUPER, key, old, new)
                if new is None:
                    writer.deletions.forget(key)
                writer.wake(key)
                writer.add(key, low=not live)
            place = volumes.claim_named(entry)
            space = self._home.stores["Namespace"].get("", place[0]) if place else None
            owner = ownership.owner_of({"annotations": space.annotations}) if space else None
            session = self.sessions.get(owner.vc_uid) if owner is not None else None
            if session is None or space is None or place is None:
                continue
            session.add(session.key(VOLUME, "", entry.name), low=not live)
            above = space.labels.get(wellknown.NAMESPACE, "")
            session.add(session.key(claims.CLAIM, above, place[1]), low=not live)

    def _super_claim_changed(self, old: Entry | None, new: Entry | None, live: bool) -> None:
        """Queue the volume of a claim. The volume is shown while the claim is bound."""
        for entry in (old, new):
            session = self.sessions.get(entry.labels.get(wellknown.VC_UID, "")) if entry else None
            name = volumes.named_by(entry) if entry is not None else ""
            if session is not None and name:
                session.add(session.key(VOLUME, "", name), low=not live)
