"""Handlers for watch events that only the home cluster has: which event queues which key.

Owns the subscriptions to resources of the home cluster only. Must not decide or write: a handler
only queues keys.
"""

from collections.abc import Mapping
from functools import partial

from kubeio.cache.store import Entry
from syncer.clusters.home_cluster import HomeCluster
from syncer.handlers import dependents
from syncer.handlers.super_events import SuperEvents
from syncer.handlers.tenant_events import suspect_drift
from syncer.model.keys import ADDRESS, NODE, VOLUME, Key
from syncer.rules.custom import mirror_owner
from syncer.rules.network.cluster_ips import parse_address
from syncer.rules.network.ingress_hosts import index_by_host
from syncer.rules.nodes.node_agents import index_by_target as served
from syncer.rules.placement.target_node import build_node_name
from syncer.rules.storage import claims, volumes
from syncer.safety.expectations import ClusterSide, EventOrigin
from syncer.tenants.session import Session
from tenancy import ownership, wellknown


class HomeEvents(SuperEvents):
    """Routes events of the home cluster to all present sessions."""

    def __init__(
        self,
        home: HomeCluster,
        sessions: Mapping[str, Session],
        all_sessions: Mapping[str, Mapping[str, Session]] | None = None,
    ) -> None:
        """`sessions` are those of the home cluster, by the UID of the VirtualCluster.

        `all_sessions` has those of all super clusters by name, because the agents of targets run
        here.
        """
        super().__init__(home, sessions)
        self._home = home
        self._all_sessions = all_sessions or {}

    def subscribe(self) -> None:
        """Subscribe to every cache of the home cluster."""
        super().subscribe()
        below = self._home
        below.nodes.subscribe(self._handle_node)
        below.agent_pods.subscribe(self._handle_agent_pod)
        below.agent_events.subscribe(self._handle_agent_event)
        below.addresses.subscribe(self._handle_ip_address)
        below.volumes.subscribe(self._handle_volume)
        below.stores[claims.CLAIM].subscribe(self._handle_super_claim)
        for store in (below.stores["Ingress"], below.other_ingresses):
            store.subscribe(self._handle_foreign_ingress)
        below.ruled.subscribe_objects(self._handle_ruled_source, self._handle_hosts)
        for kind, store in below.classes.items():
            store.subscribe(partial(self._handle_class, kind))

    def handle_pod(
        self, session: Session, key: Key, old: Entry | None, new: Entry | None, *, low: bool
    ) -> None:
        """Queue the objects that depend on a twin."""
        super().handle_pod(session, key, old, new, low=low)
        dependents.enqueue_slices_of_pod(session, old, new)
        if new is None:
            dependents.enqueue_pod_followers(session, key.namespace, low=low)

    def _handle_foreign_ingress(self, old: Entry | None, new: Entry | None, _: bool) -> None:
        before, now = (index_by_host(each) if each else frozenset() for each in (old, new))
        self._handle_hosts(before ^ now)

    def _handle_hosts(self, hosts: frozenset[str]) -> None:
        """Queue the objects with hosts that another object has acquired or released."""
        dependents.enqueue_users_of_hosts(self.sessions.values(), hosts)

    def _handle_node(self, old: Entry | None, new: Entry | None, live: bool) -> None:
        entry = new or old
        if entry is not None:
            dependents.enqueue_nodes_of_super_node(self.sessions.values(), old, new, low=not live)
            self._enqueue_node(entry.name, low=not live)

    def _handle_agent_pod(self, old: Entry | None, new: Entry | None, live: bool) -> None:
        nodes = {
            str((entry.decode().get("spec") or {}).get("nodeName") or "")
            for entry in (old, new)
            if entry is not None
        }
        for node in nodes - {""}:
            self._enqueue_node(node, low=not live)
        for registration in {each for entry in (old, new) if entry for each in served(entry)}:
            self._enqueue_target_node(registration, low=not live)

    def _enqueue_target_node(self, registration: str, *, low: bool) -> None:
        for sessions in self._all_sessions.values():
            for session in sessions.values():
                if session.super_cluster.registration == registration:
                    session.work.enqueue(
                        session.build_key(NODE, "", build_node_name(session.name)), low=low
                    )

    def _handle_agent_event(self, old: Entry | None, new: Entry | None, live: bool) -> None:
        entry = new or old
        node = self._home.agents.get_event_node(entry) if entry is not None else ""
        if node:
            self._enqueue_node(node, low=not live)

    def _enqueue_node(self, node: str, *, low: bool) -> None:
        for session in self.sessions.values():
            is_shown = session.stores[NODE].get("", node) is not None
            if session.view.exposes_all_nodes or is_shown or session.pods.has_pods_on_node(node):
                session.work.enqueue(session.build_key(NODE, "", node), low=low)

    def _handle_ip_address(self, old: Entry | None, new: Entry | None, live: bool) -> None:
        entry = new or old
        address = parse_address(entry.name) if entry is not None else None
        if entry is None or address is None:
            return
        for session in self.sessions.values():
            if address in session.view.service_range:
                session.work.enqueue(session.build_key(ADDRESS, "", entry.name), low=not live)

    def _handle_ruled_source(self, kind: str, old: Entry | None, new: Entry | None) -> None:
        """Queue an object that a SyncRule shows to tenants."""
        entry = new or old
        for session in self._list_viewers(kind, old, new):
            mirror = session.ruled_mirrors.get(kind)
            shown = mirror.get_shown_namespace(entry.namespace) if mirror and entry else None
            if mirror is None or shown is None or entry is None:
                continue
            session.work.enqueue(session.build_key(kind, shown, entry.name))
            was, is_now = (
                each is not None and mirror.is_selected(each, session.view) for each in (old, new)
            )
            if was != is_now:
                dependents.enqueue_users_of_kind(session, kind)

    def _list_viewers(self, kind: str, old: Entry | None, new: Entry | None) -> list[Session]:
        """Return the sessions whose tenants a SyncRule may show an object."""
        rule = self._home.ruled.get_rule(kind)
        if rule is None or rule.spec.mirror_owner is None:
            return list(self.sessions.values())
        bodies = [each.decode() for each in (old, new) if each is not None]
        named = {mirror_owner.find_owner_namespace(rule, body) or "" for body in bodies}
        spaces = [self._home.stores["Namespace"].get("", name) for name in named]
        uids = {space.labels.get(wellknown.VC_UID, "") for space in spaces if space is not None}
        return [self.sessions[uid] for uid in uids if uid in self.sessions]

    def _handle_class(self, kind: str, old: Entry | None, new: Entry | None, live: bool) -> None:
        entry = new or old
        if entry is None:
            return
        for session in self.sessions.values():
            key = session.build_key(kind, "", entry.name)
            session.work.wake_waiters(key)
            session.work.enqueue(key, low=not live)
            dependents.enqueue_users_of_class(session, kind, entry.name, low=not live)

    def _handle_volume(self, old: Entry | None, new: Entry | None, live: bool) -> None:
        """Queue a volume in the tenant that wrote it and in the tenant whose claim it is for."""
        for entry in (old, new):
            if entry is None:
                continue
            writer = self.sessions.get(entry.labels.get(wellknown.VC_UID, ""))
            if writer is not None:
                key = writer.build_key(VOLUME, "", entry.annotations.get(wellknown.VOLUME, ""))
                is_ours = (
                    writer.expectations.observe_event(ClusterSide.SUPER, key, new)
                    is not EventOrigin.FOREIGN
                )
                if entry is old and not is_ours:
                    suspect_drift(writer, ClusterSide.SUPER, key, old, new)
                if new is None:
                    writer.proven_deletes.forget(key)
                writer.work.wake_waiters(key)
                writer.work.enqueue(key, low=not live)
            place = volumes.get_claim_reference(entry)
            space = self._home.stores["Namespace"].get("", place[0]) if place else None
            owner = ownership.read_owner({"annotations": space.annotations}) if space else None
            session = self.sessions.get(owner.vc_uid) if owner is not None else None
            if session is None or space is None or place is None:
                continue
            session.work.enqueue(session.build_key(VOLUME, "", entry.name), low=not live)
            above = space.labels.get(wellknown.NAMESPACE, "")
            session.work.enqueue(session.build_key(claims.CLAIM, above, place[1]), low=not live)

    def _handle_super_claim(self, old: Entry | None, new: Entry | None, live: bool) -> None:
        """Queue the volume of a claim. The volume is shown while the claim is bound."""
        for entry in (old, new):
            session = self.sessions.get(entry.labels.get(wellknown.VC_UID, "")) if entry else None
            name = volumes.get_recorded_volume_name(entry) if entry is not None else ""
            if session is not None and name:
                session.work.enqueue(session.build_key(VOLUME, "", name), low=not live)
