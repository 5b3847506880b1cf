"""References of pods and Ingresses to ConfigMaps, Secrets and claims, and the reverse index.

Owns the walk over every field of a PodSpec that names another object. Must not know how anything is
written.

Hazard: the walk must cover every such field of the verdict table. If it misses one, the pod never
starts.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from tenancy import names
from tenancy.resources import NETWORK_ATTACHMENTS

_RESERVED_CONFIG_MAPS = frozenset(
    {names.SUPER_ROOT_CA, names.SERVICE_VARIABLES, names.API_VARIABLES}
)


class ObjectReference(NamedTuple):
    """One object of the same namespace that a pod needs."""

    kind: str
    name: str


def is_reserved_name(kind: str, name: str) -> bool:
    """Return whether a tenant object's name is reserved for objects of the syncer."""
    if kind == "Secret":
        return name.startswith(names.TOKEN_SECRET_PREFIX)
    if kind == "NetworkPolicy":
        return name in names.DEFAULT_POLICIES
    if kind == NETWORK_ATTACHMENTS.kind:
        return name == names.PRIMARY_NETWORK
    return kind == "ConfigMap" and name in _RESERVED_CONFIG_MAPS


def list_references(spec: Mapping[str, Any]) -> frozenset[ObjectReference]:
    """Return every ConfigMap, Secret and claim that a PodSpec names. Empty if it is malformed."""
    try:
        return frozenset(ref for ref in _iterate_references(spec) if _is_text(ref.name))
    except (AttributeError, TypeError):
        return frozenset()  # from a hostile API; the verdict table rejects such a pod


def _is_text(value: object) -> bool:
    return isinstance(value, str)


ACCOUNT_TOKEN = "AccountToken"  # noqa: S105 - a kind of need
"""Kind of need: the token that all pods of an account share. The name is that of the account."""
POD_TOKEN = "PodToken"  # noqa: S105 - a kind of need
"""Kind of need: tokens that are bound to one pod. The name is the pod's UID."""


def list_pod_needs(pod: Mapping[str, Any]) -> frozenset[ObjectReference]:
    """Return the objects and tokens that a tenant pod needs in the super cluster."""
    spec = pod.get("spec") or {}
    needs = set(list_references(spec))
    try:
        for source in iterate_token_sources(spec):
            if source.get("audience"):
                needs.add(ObjectReference(POD_TOKEN, pod["metadata"]["uid"]))
            else:
                needs.add(
                    ObjectReference(ACCOUNT_TOKEN, spec.get("serviceAccountName") or "default")
                )
    except (AttributeError, KeyError, TypeError):
        pass  # as above
    return frozenset(needs)


def iterate_token_sources(spec: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield the serviceAccountToken sources of a PodSpec's volumes."""
    for volume in spec.get("volumes") or ():
        for source in (volume.get("projected") or {}).get("sources") or ():
            if source.get("serviceAccountToken") is not None:
                yield source["serviceAccountToken"]


def _iterate_references(spec: Mapping[str, Any]) -> Iterator[ObjectReference]:
    for secret in spec.get("imagePullSecrets") or ():
        if secret.get("name"):
            yield ObjectReference("Secret", secret["name"])
    for volume in spec.get("volumes") or ():
        yield from _iterate_volume_references(volume)
    for containers in ("initContainers", "containers", "ephemeralContainers"):
        for container in spec.get(containers) or ():
            yield from _iterate_environment_references(container)


CLAIM = "PersistentVolumeClaim"


def list_ephemeral_claims(pod: Mapping[str, Any]) -> dict[str, str]:
    """Return the claims of a pod's generic ephemeral volumes, by the volume's name.

    The tenant's own controller creates them. The super pod uses them as ordinary claims.
    """
    try:
        name = pod["metadata"]["name"]
        return {
            volume["name"]: f"{name}-{volume['name']}"
            for volume in pod["spec"].get("volumes") or ()
            if volume.get("ephemeral") is not None
        }
    except (AttributeError, KeyError, TypeError):
        return {}  # from a hostile API; the verdict table rejects such a pod


def is_made_for(claim: Mapping[str, Any], pod_uid: str) -> bool:
    """Return whether a controller created a claim for an ephemeral volume of this pod.

    The name proves nothing: two pods may produce the same name, and any user may create a claim of
    that name.
    """
    owners = claim["metadata"].get("ownerReferences")
    return any(
        isinstance(owner, dict) and bool(owner.get("controller")) and owner.get("uid") == pod_uid
        for owner in (owners if isinstance(owners, list) else ())
    )


def _iterate_volume_references(volume: Mapping[str, Any]) -> Iterator[ObjectReference]:
    if name := (volume.get("persistentVolumeClaim") or {}).get("claimName"):
        yield ObjectReference(CLAIM, name)
    if name := (volume.get("secret") or {}).get("secretName"):
        yield ObjectReference("Secret", name)
    if name := (volume.get("configMap") or {}).get("name"):
        yield ObjectReference("ConfigMap", name)
    if name := ((volume.get("csi") or {}).get("nodePublishSecretRef") or {}).get("name"):
        yield ObjectReference("Secret", name)
    for source in (volume.get("projected") or {}).get("sources") or ():
        if name := (source.get("secret") or {}).get("name"):
            yield ObjectReference("Secret", name)
        if name := (source.get("configMap") or {}).get("name"):
            yield ObjectReference("ConfigMap", name)


def _iterate_environment_references(container: Mapping[str, Any]) -> Iterator[ObjectReference]:
    for source in container.get("envFrom") or ():
        if name := (source.get("configMapRef") or {}).get("name"):
            yield ObjectReference("ConfigMap", name)
        if name := (source.get("secretRef") or {}).get("name"):
            yield ObjectReference("Secret", name)
    for variable in container.get("env") or ():
        value_from = variable.get("valueFrom") or {}
        if name := (value_from.get("configMapKeyRef") or {}).get("name"):
            yield ObjectReference("ConfigMap", name)
        if name := (value_from.get("secretKeyRef") or {}).get("name"):
            yield ObjectReference("Secret", name)


def build_user_name(kind: str, name: str) -> str:
    """Return the key of a user that is no pod. No pod has a slash in its name."""
    return f"{kind}/{name}"


class ReferenceIndex:
    """Reverse index of references, from the pods and Ingresses of one tenant."""

    def __init__(self) -> None:
        self._refs_by_user: dict[tuple[str, str], frozenset[ObjectReference]] = {}
        self._users: defaultdict[tuple[str, ObjectReference], set[str]] = defaultdict(set)
        self._namespaces: Counter[str] = Counter()

    def set(
        self, namespace: str, user: str, refs: Iterable[ObjectReference]
    ) -> frozenset[ObjectReference]:
        """Record the references of a user. Return the added and removed ones.

        A user is a pod name or a `build_user_name` key.
        """
        new = frozenset(refs)
        old = self._refs_by_user.pop((namespace, user), frozenset())
        if new:
            self._refs_by_user[namespace, user] = new
        self._namespaces[namespace] += bool(new) - bool(old)
        if not self._namespaces[namespace]:
            del self._namespaces[namespace]
        for ref in old - new:
            users = self._users[namespace, ref]
            users.discard(user)
            if not users:
                del self._users[namespace, ref]
        for ref in new - old:
            self._users[namespace, ref].add(user)
        return old ^ new

    def is_used(self, namespace: str, ref: ObjectReference) -> bool:
        """Return whether any user needs the object."""
        return (namespace, ref) in self._users

    def has_namespace(self, namespace: str) -> bool:
        """Return whether any user needs an object of a namespace."""
        return namespace in self._namespaces

    def is_shared(self, namespace: str, ref: ObjectReference) -> bool:
        """Return whether more than one user needs the object."""
        return len(self._users.get((namespace, ref), ())) > 1

    def list_users(self, namespace: str, ref: ObjectReference) -> frozenset[str]:
        """Return the users of the object: pods by name, others by their `build_user_name` key."""
        return frozenset(self._users.get((namespace, ref), ()))
