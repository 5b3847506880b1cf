"""Index of the node ports of a tenant's Services in one super cluster. Pure.

Owns the index. Must not enqueue keys. Hazard: only ports of super objects may count. A tenant may
write the node port of another tenant's Service, which the super cluster then refuses.
"""

from collections import Counter

import msgspec

from kubeio.cache.store import Entry, StoreKey

NodePort = tuple[str, int]
"""Protocol and number."""
_MARK = b'"nodePort"'


class _NumberedPort(msgspec.Struct, rename={"node_port": "nodePort"}):
    protocol: str = "TCP"
    node_port: int = 0


class _PortsSpec(msgspec.Struct):
    ports: list[_NumberedPort] | None = None


class _ServicePorts(msgspec.Struct):
    spec: _PortsSpec | None = None


_DECODER = msgspec.json.Decoder(_ServicePorts)


class NodePorts:
    """Node ports of one tenant's super Services."""

    def __init__(self) -> None:
        self._by_service: dict[StoreKey, frozenset[NodePort]] = {}
        self._users: Counter[NodePort] = Counter()

    def set_service(self, service: StoreKey, entry: Entry | None) -> bool:
        """Update the index with a super Service. Return whether the list of ports changed."""
        now = _read_node_ports(entry) if entry is not None else frozenset()
        before = self._by_service.pop(service, frozenset())
        if now:
            self._by_service[service] = now
        if now == before:
            return False
        listed = set(self._users)
        self._users.update(now)
        self._users.subtract(before)
        self._users += Counter()  # removes the ports without a user
        return listed != set(self._users)

    def list_ports(self) -> list[NodePort]:
        """Return the ports in order."""
        return sorted(self._users)


def _read_node_ports(service: Entry) -> frozenset[NodePort]:
    if _MARK not in service.body:
        return frozenset()
    spec = _DECODER.decode(service.body).spec
    ports = (spec.ports or ()) if spec is not None else ()
    return frozenset((each.protocol, each.node_port) for each in ports if each.node_port)
