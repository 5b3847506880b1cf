"""References of pods and Ingresses to ConfigMaps, Secrets and claims, and the reverse index.

Owns the walk over every field of a PodSpec that names another object. Must not know how anything is
written.

Hazard: the walk must cover every such field of the verdict table. If it misses one, the pod never
starts.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from tenancy import names


class Ref(NamedTuple):
    """One object of the same namespace that a pod needs."""

    kind: str
    name: str


def is_reserved_name(kind: str, name: str) -> bool:
    """Return whether a tenant object's name is reserved for objects of the syncer."""
    if kind == "Secret":
        return name.startswith(names.TOKEN_SECRET_PREFIX)
    return kind == "ConfigMap" and name == names.SUPER_ROOT_CA


def refs_of(spec: Mapping[str, Any]) -> frozenset[Ref]:
    """Return every ConfigMap, Secret and claim that a PodSpec names. Empty if it is malformed."""
    try:
        return frozenset(ref for ref in _walk(spec) if _is_text(ref.name))
    except (AttributeError, TypeError):
        return frozenset()  # from a hostile API; the verdict table rejects such a pod


def _is_text(value: object) -> bool:
    return isinstance(value, str)


ACCOUNT_TOKEN = "AccountToken"  # noqa: S105 - a kind of need
"""Kind of need: the token that all pods of an account share. The name is that of the account."""
POD_TOKEN = "PodToken"  # noqa: S105 - a kind of need
"""Kind of need: tokens that are bound to one pod. The name is the pod's UID."""


def needs_of(pod: Mapping[str, Any]) -> frozenset[Ref]:
    """Return the objects and tokens that a tenant pod needs in the super cluster."""
    spec = pod.get("spec") or {}
    needs = set(refs_of(spec))
    try:
        for source in token_sources(spec):
            if source.get("audience"):
                needs.add(Ref(POD_TOKEN, pod["metadata"]["uid"]))
            else:
                needs.add(Ref(ACCOUNT_TOKEN, spec.get("serviceAccountName") or "default"))
    except (AttributeError, KeyError, TypeError):
        pass  # as above
    return frozenset(needs)


def token_sources(spec: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield the serviceAccountToken sources of a PodSpec's volumes."""
    for volume in spec.get("volumes") or ():
        for source in (volume.get("projected") or {}).get("sources") or ():
            if source.get("serviceAccountToken") is not None:
                yield source["serviceAccountToken"]


def _walk(spec: Mapping[str, Any]) -> Iterator[Ref]:
    for secret in spec.get("imagePullSecrets") or ():
        if secret.get("name"):
            yield Ref("Secret", secret["name"])
    for volume in spec.get("volumes") or ():
        yield from _volume(volume)
    for containers in ("initContainers", "containers", "ephemeralContainers"):
        for container in spec.get(containers) or ():
            yield from _environment(container)


CLAIM = "PersistentVolumeClaim"


def ephemeral_claims(pod: Mapping[str, Any]) -> dict[str, str]:
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


def _volume(volume: Mapping[str, Any]) -> Iterator[Ref]:
    if name := (volume.get("persistentVolumeClaim") or {}).get("claimName"):
        yield Ref(CLAIM, name)
    if name := (volume.get("secret") or {}).get("secretName"):
        yield Ref("Secret", name)
    if name := (volume.get("configMap") or {}).get("name"):
        yield Ref("ConfigMap", name)
    if name := ((volume.get("csi") or {}).get("nodePublishSecretRef") or {}).get("name"):
        yield Ref("Secret", name)
    for source in (volume.get("projected") or {}).get("sources") or ():
        if name := (source.get("secret") or {}).get("name"):
            yield Ref("Secret", name)
        if name := (source.get("configMap") or {}).get("name"):
            yield Ref("ConfigMap", name)


def _environment(container: Mapping[str, Any]) -> Iterator[Ref]:
    for source in container.get("envFrom") or ():
        if name := (source.get("configMapRef") or {}).get("name"):
            yield Ref("ConfigMap", name)
        if name := (source.get("secretRef") or {}).get("name"):
            yield Ref("Secret", name)
    for variable in container.get("env") or ():
        value_from = variable.get("valueFrom") or {}
        if name := (value_from.get("configMapKeyRef") or {}).get("name"):
            yield Ref("ConfigMap", name)
        if name := (value_from.get("secretKeyRef") or {}).get("name"):
            yield Ref("Secret", name)


def user_of(kind: str, name: str) -> str:
    """Return the key of a user that is no pod. No pod has a slash in its name."""
    return f"{kind}/{name}"


class References:
    """Reverse index of references, from the pods and Ingresses of one tenant."""

    def __init__(self) -> None:
        self._of_user: dict[tuple[str, str], frozenset[Ref]] = {}
        self._users: defaultdict[tuple[str, Ref], set[str]] = defaultdict(set)

    def set(self, namespace: str, user: str, refs: Iterable[Ref]) -> frozenset[Ref]:
        """Record the references of a pod or `user_of` key. Return the added and removed ones."""
        new = frozenset(refs)
        old = self._of_user.pop((namespace, user), frozenset())
        if new:
            self._of_user[namespace, user] = new
        for ref in old - new:
            users = self._users[namespace, ref]
            users.discard(user)
            if not users:
                del self._users[namespace, ref]
        for ref in new - old:
            self._users[namespace, ref].add(user)
        return old ^ new

    def is_used(self, namespace: str, ref: Ref) -> bool:
        """Return whether any user needs the object."""
        return (namespace, ref) in self._users

    def is_shared(self, namespace: str, ref: Ref) -> bool:
        """Return whether more than one user needs the object."""
        return len(self._users.get((namespace, ref), ())) > 1

    def users(self, namespace: str, ref: Ref) -> frozenset[str]:
        """Return the users of the object: pods by name, other users by their `user_of` key."""
        return frozenset(self._users.get((namespace, ref), ()))
