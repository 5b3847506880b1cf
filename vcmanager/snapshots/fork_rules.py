"""Changes of a snapshot that another tenant starts from (docs/adr/0040).

Tables of keys that are left out, and of fields that change. Pure. Must not know files.

Hazard: the new tenant must use nothing of the old one: no address, no volume, no credential. An
object that cannot be read with certainty refuses the fork.
"""

import ipaddress
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from vcmanager.snapshots import stored_objects
from vcmanager.snapshots.file_store import WorkerError
from vcmanager.snapshots.stored_objects import Edit, Path

IPNetwork = ipaddress.IPv4Network | ipaddress.IPv6Network
_REGISTRY = "/registry/"
DROPPED_PREFIXES: Mapping[str, str] = {
    "minions/": "the syncer creates the nodes of the new tenant",
    "csinodes/": "as nodes",
    "leases/": "their holders are of the old tenant",
    "masterleases/": "addresses of the old API servers",
    "events/": "they are about the old tenant",
    "pods/": "their controllers create them again",
    "persistentvolumes/": "their storage is of the old tenant",
    "volumeattachments/": "as volumes",
    "csistoragecapacities/": "the super cluster reports them",
    "resourceslices/": "as nodes",
    "certificatesigningrequests/": "signed by the old CA",
    "podcertificaterequests/": "signed by the old CA",
    "ipaddresses/": "the API server creates them for the new addresses",
    "servicecidrs/": "the API server creates the new range",
    "ranges/": "bitmaps of the old range",
    "services/endpoints/default/kubernetes": "addresses of the old API servers",
    "endpointslices/default/kubernetes": "addresses of the old API servers",
    "configmaps/kube-system/extension-apiserver-authentication": "trusts the old CAs",
    "configmaps/kube-system/virtual-cluster-store": "state of the syncer for the old tenant",
    "configmaps/kube-public/vc-certificates": "certificates of the old tenant",
    "snapshot.storage.k8s.io/volumesnapshots/": "their storage is of the old tenant",
    "snapshot.storage.k8s.io/volumesnapshotcontents/": "as volume snapshots",
}
"""Prefixes of keys that are left out, and the reasons."""
DROPPED_CONFIG_MAP = "/kube-root-ca.crt"
"""End of the keys of ConfigMaps with the old CA, one in each namespace."""
_SECRETS, _CLAIMS = f"{_REGISTRY}secrets/", f"{_REGISTRY}persistentvolumeclaims/"
_SERVICES = f"{_REGISTRY}services/specs/"
_RESOURCE_CLAIMS = f"{_REGISTRY}resourceclaims/"
API_SERVICE = f"{_SERVICES}default/kubernetes"
_SECRET_TYPE: Path = (3,)
_SECRET_DATA: Path = (2,)
_STATUS: Path = (3,)
_ANNOTATIONS: Path = (1, 12)
_VOLUME_NAME: Path = (2, 3)
_CLAIM_DATA_SOURCES: tuple[Path, ...] = ((2, 7), (2, 8))
_CLUSTER_IP: Path = (2, 3)
_CLUSTER_IPS: Path = (2, 18)
_TOKEN_TYPE = b"kubernetes.io/service-account-token"
_BOOTSTRAP_TYPE = b"bootstrap.kubernetes.io/token"
_BOUND_ANNOTATIONS = (
    b"pv.kubernetes.io/",
    b"volume.kubernetes.io/selected-node",
    b"volume.kubernetes.io/storage-provisioner",
    b"volume.beta.kubernetes.io/storage-provisioner",
    b"tenancy.x-k8s.io/",
)
"""Prefixes of annotations of a claim that name its old volume, or that the syncer wrote."""


class ForkRefusedError(WorkerError):
    """The snapshot cannot be forked."""


@dataclass(frozen=True, slots=True)
class RangeMap:
    """The service ranges of the old and of the new tenant. An address keeps its offset."""

    old: IPNetwork
    new: IPNetwork

    def map_address(self, text: bytes) -> bytes:
        """Return the address in the new range. `None` of a headless Service stays.

        Raises ForkRefusedError for an address that has no place in the new range.
        """
        if text in (b"", b"None"):
            return text
        try:
            address = ipaddress.ip_address(text.decode())
        except ValueError as problem:
            raise ForkRefusedError("UnreadableObject", f"{text!r} is no address") from problem
        offset = int(address) - int(self.old.network_address)
        if address not in self.old or offset >= self.new.num_addresses - 1:
            raise ForkRefusedError(
                "ServiceRangeTooSmall",
                f"the Service address {address} of the range {self.old} has no place in the range"
                f" {self.new} of the new tenant. Give it a range of the same size",
            )
        return str(self.new[offset]).encode()


def is_dropped(key: str) -> bool:
    """Return whether a key is left out."""
    if not key.startswith(_REGISTRY):
        return True
    rest = key.removeprefix(_REGISTRY)
    is_old_ca = rest.startswith("configmaps/") and rest.endswith(DROPPED_CONFIG_MAP)
    return is_old_ca or any(rest.startswith(prefix) for prefix in DROPPED_PREFIXES)


def convert_value(key: str, value: bytes, ranges: RangeMap) -> bytes | None:
    """Return the stored object of the new tenant. None: it is left out.

    Raises ForkRefusedError for an object that only the old keys can decrypt.
    """
    if value.startswith(stored_objects.ENCRYPTED_PREFIX):
        raise ForkRefusedError(
            "EncryptedData",
            f"{key.removeprefix(_REGISTRY)} is encrypted with a key of the old tenant, which the"
            " new tenant does not have",
        )
    try:
        if key.startswith(_SECRETS):
            return _convert_secret(value)
        edits = _list_edits(key, ranges)
        return stored_objects.edit_object(value, edits) if edits else value
    except stored_objects.UnreadableObjectError as problem:
        raise ForkRefusedError(
            "UnreadableObject", f"{key.removeprefix(_REGISTRY)}: {problem}"
        ) from problem


def infer_range(value: bytes, prefix_length: int) -> IPNetwork:
    """Return the old service range from the stored Service `kubernetes`, its first address.

    Both ranges have the same length of the prefix, unless the old one was declared otherwise.
    """
    found = stored_objects.read_fields(value, _CLUSTER_IP)
    try:
        address = ipaddress.ip_address(found[0].decode())
        return ipaddress.ip_network(f"{address}/{prefix_length}", strict=False)
    except (IndexError, ValueError) as problem:
        raise ForkRefusedError(
            "UnreadableObject", "the Service default/kubernetes has no address"
        ) from problem


def read_range(values: Iterable[bytes]) -> IPNetwork | None:
    """Return the range of the stored ServiceCIDR `kubernetes`, or None without one."""
    for value in values:
        for text in stored_objects.read_fields(value, (2, 1)):
            try:
                return ipaddress.ip_network(text.decode())
            except ValueError:
                continue
    return None


def _convert_secret(value: bytes) -> bytes | None:
    """Tokens are signed by the old keys. The controller manager fills an empty Secret again."""
    kind = next(iter(stored_objects.read_fields(value, _SECRET_TYPE)), b"")
    if kind == _BOOTSTRAP_TYPE:
        return None
    if kind == _TOKEN_TYPE:
        return stored_objects.edit_object(value, [(_SECRET_DATA, stored_objects.drop_field)])
    return value


def _list_edits(key: str, ranges: RangeMap) -> list[tuple[Path, Edit]]:
    if key.startswith(_SERVICES):
        return [
            (_CLUSTER_IP, ranges.map_address),
            (_CLUSTER_IPS, ranges.map_address),
            (_STATUS, stored_objects.drop_field),
        ]
    if key.startswith(_CLAIMS):
        return [
            (_VOLUME_NAME, stored_objects.drop_field),
            *((path, stored_objects.drop_field) for path in _CLAIM_DATA_SOURCES),
            (_STATUS, stored_objects.drop_field),
            (_ANNOTATIONS, _drop_bound_annotation),
        ]
    if key.startswith(_RESOURCE_CLAIMS):
        return [(_STATUS, stored_objects.drop_field)]
    return []


def _drop_bound_annotation(entry: bytes) -> bytes | None:
    name = next((each.content for each in stored_objects.iterate_fields(entry)), b"")
    return None if name.startswith(_BOUND_ANNOTATIONS) else entry
