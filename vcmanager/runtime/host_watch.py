"""Watch of the host names that VirtualClusters want, for vc-manager and for the API proxy.

Owns the cache of claims, by host name. Must not know what a reader does with a decision.
"""

from collections.abc import Callable, Iterator

import msgspec

from kubeio.api.client import Client
from kubeio.cache.reflector import Reflector, ReflectorOptions
from kubeio.cache.store import Entry, Store
from tenancy.access import hosts
from tenancy.access.hosts import HostClaim, HostProblem
from tenancy.resources import VIRTUAL_CLUSTERS

_BY_HOST = "host"


class HostWatch:
    """Claims of all VirtualClusters, and the owner of each host name."""

    def __init__(
        self, client: Client, base_domain: str, on_changed: Callable[[HostClaim], None]
    ) -> None:
        """Create the watch. `run` starts it.

        `on_changed` is called with each tenant whose host name may have another owner or address.
        """
        self._base_domain = base_domain
        self._on_changed = on_changed
        self._store = Store({_BY_HOST: self._list_hosts})
        self._store.subscribe(self._handle_event)
        self._reflector = Reflector(
            client, VIRTUAL_CLUSTERS, self._store, ReflectorOptions(reduce=_reduce, side="super")
        )

    @property
    def synced(self) -> bool:
        """Return whether all VirtualClusters are known."""
        return self._reflector.synced

    async def run(self) -> None:
        """Follow the VirtualClusters until cancelled."""
        await self._reflector.run()

    async def wait_synced(self) -> None:
        """Wait until all VirtualClusters are known."""
        await self._reflector.wait_synced()

    def build_host(self, claim: HostClaim) -> str:
        """Return the host name that a tenant wants. Empty: none."""
        return hosts.build_host(claim, self._base_domain)

    def find_problem(self, claim: HostClaim) -> HostProblem | None:
        """Return why a tenant cannot have its host name, or None."""
        host = self.build_host(claim)
        others = [each for each in self._list_claims(host) if each.uid != claim.uid]
        return hosts.find_problem(claim, others, self._base_domain)

    def iterate_owners(self) -> Iterator[tuple[str, HostClaim]]:
        """Yield each host name with its owner."""
        wanted = {host for entry in self._store.list() for host in self._list_hosts(entry)}
        for host in sorted(wanted):
            owner = hosts.find_owner(self._list_claims(host), self._base_domain)
            if owner is not None:
                yield host, owner

    def _list_claims(self, host: str) -> list[HostClaim]:
        found = (_parse(entry) for entry in self._store.index(_BY_HOST, host))
        return [each for each in found if each is not None]

    def _list_hosts(self, entry: Entry) -> list[str]:
        claim = _parse(entry)
        host = self.build_host(claim) if claim is not None else ""
        return [host] if host else []

    def _handle_event(self, old: Entry | None, new: Entry | None, _live: bool) -> None:
        before = _parse(old) if old is not None else None
        after = _parse(new) if new is not None else None
        if before == after:
            return
        touched = {each.uid: each for each in (before, after) if each is not None}
        for claim in list(touched.values()):
            touched.update((each.uid, each) for each in self._list_claims(self.build_host(claim)))
        for claim in touched.values():
            self._on_changed(claim)


def _parse(entry: Entry) -> HostClaim | None:
    try:
        return hosts.parse_claim(entry.body)
    except msgspec.MsgspecError:
        return None  # an object that no version of the definition allows has no host name


def _reduce(entry: Entry) -> Entry:
    """Keep the fields of a claim only."""
    claim = _parse(entry)
    if claim is None:
        return entry
    metadata = {
        "namespace": claim.namespace,
        "name": claim.name,
        "uid": claim.uid,
        "creationTimestamp": claim.created,
    }
    body = {
        "metadata": metadata,
        "spec": {"endpoint": {"hostname": claim.hostname}},
        "status": {"apiServerAddress": claim.address},
    }
    return msgspec.structs.replace(entry, body=msgspec.json.encode(body))
