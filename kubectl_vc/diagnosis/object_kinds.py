"""Kinds that `kubectl vc why` understands, by the names that kubectl knows. Pure."""

from dataclasses import dataclass

from kubectl_vc.output.cli_errors import UsageError
from tenancy import names
from tenancy.resources import (
    CONFIG_MAPS,
    DAEMON_SETS,
    DEPLOYMENTS,
    INGRESSES,
    JOBS,
    NAMESPACES,
    NETWORK_POLICIES,
    PERSISTENT_VOLUME_CLAIMS,
    POD_DISRUPTION_BUDGETS,
    PODS,
    SECRETS,
    SERVICES,
    STATEFUL_SETS,
    Resource,
)

REPLICA_SETS = Resource("apps", "v1", "replicasets", "ReplicaSet")
WORKLOADS = frozenset({"Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "Job"})
"""Kinds that are diagnosed by their pods. They have no copy themselves."""

_SHORT_NAMES: tuple[tuple[Resource, tuple[str, ...]], ...] = (
    (PODS, ("po",)),
    (SERVICES, ("svc",)),
    (PERSISTENT_VOLUME_CLAIMS, ("pvc",)),
    (CONFIG_MAPS, ("cm",)),
    (SECRETS, ()),
    (INGRESSES, ("ing",)),
    (NETWORK_POLICIES, ("netpol",)),
    (POD_DISRUPTION_BUDGETS, ("pdb",)),
    (NAMESPACES, ("ns",)),
    (DEPLOYMENTS, ("deploy",)),
    (REPLICA_SETS, ("rs",)),
    (STATEFUL_SETS, ("sts",)),
    (DAEMON_SETS, ("ds",)),
    (JOBS, ()),
)
RESOURCES: dict[str, Resource] = {
    spelling: resource
    for resource, short in _SHORT_NAMES
    for spelling in (resource.kind.lower(), resource.plural, *short)
}
COPIED_KINDS = frozenset({resource.kind for resource, _ in _SHORT_NAMES}) - WORKLOADS
"""Kinds of this table that have a copy in the super cluster."""


def build_super_name(resource: Resource, name: str) -> str:
    """Return the name of the copy of a tenant object in its super namespace."""
    is_root_ca = resource is CONFIG_MAPS and name == names.TENANT_ROOT_CA
    return names.SUPER_ROOT_CA if is_root_ca else name


KNOWN_KINDS = ", ".join(sorted(each.kind.lower() for each, _ in _SHORT_NAMES))


@dataclass(frozen=True, slots=True)
class ObjectName:
    """Kind and name of the object that a user asks about."""

    resource: Resource
    name: str

    @property
    def kind(self) -> str:
        """Return the kind, with the group unless the kind is one of `RESOURCES`.

        Two groups can have one kind. kubectl reads both forms.
        """
        found = self.resource
        return f"{found.kind}.{found.group}" if self.is_custom else found.kind

    @property
    def is_custom(self) -> bool:
        """Return whether the kind is none of `RESOURCES`. A SyncRule may sync it."""
        return RESOURCES.get(self.resource.plural) != self.resource


@dataclass(frozen=True, slots=True)
class ObjectQuery:
    """An object as a user names it. Its kind may be one that only the API server knows."""

    kind: str
    """As kubectl reads it, in lower case: `pod`, `httproute`, `widgets.example.com`."""
    name: str

    @property
    def resource(self) -> Resource | None:
        """Return the coordinates of a kind of `RESOURCES`, otherwise None."""
        head, _, rest = self.kind.partition(".")
        found = RESOURCES.get(head)
        if found is None:
            return None
        forms = ("", found.group, found.version, f"{found.version}.{found.group}")
        return found if rest in forms else None


def parse_object_name(text: str) -> ObjectQuery:
    """Return the object of `KIND/NAME`. Raises UsageError."""
    kind, slash, name = text.partition("/")
    if not slash or not kind or not name:
        raise UsageError(f"{text!r} is not KIND/NAME. Write it like pod/web.")
    if not names.is_dns_subdomain(kind.lower()):
        raise UsageError(f"{kind!r} is not a kind. Use one of: {KNOWN_KINDS}.")
    if not names.is_dns_subdomain(name):
        raise UsageError(f"{name!r} is not a valid object name. Correct the name after the slash.")
    return ObjectQuery(kind.lower(), name)


def parse_tenant_name(text: str) -> tuple[str, str]:
    """Return namespace and name of `[NAMESPACE/]NAME`. The namespace may be empty."""
    namespace, slash, name = text.rpartition("/")
    if (slash and not names.is_dns_label(namespace)) or not names.is_dns_label(name):
        raise UsageError(f"--vc {text!r} is not a VirtualCluster. Write NAME or NAMESPACE/NAME.")
    return namespace, name
