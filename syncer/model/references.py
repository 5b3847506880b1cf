"""Which ConfigMaps, Secrets and claims a pod or an Ingress needs, and who needs one of them.

Owns the walk over every place in a PodSpec that names another object, and the reverse index. Must
not know how anything is written. Hazard: a place that the walk misses makes a pod that never
starts, so it follows the verdict table's own fields.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from tenancy import names


class Ref(NamedTuple):
    """One object that a pod of the same namespace needs."""

    kind: str
    name: str


def is_reserved_name(kind: str, name: str) -> bool:
    """Tell whether a tenant object of this name could be taken for one of ours."""
    if kind == "Secret":
        return name.startswith(names.TOKEN_SECRET_PREFIX)
    return kind == "ConfigMap" and name == names.SUPER_ROOT_CA


def refs_of(spec: Mapping[str, Any]) -> frozenset[Ref]:
    """Return every ConfigMap, Secret and claim that a PodSpec names; none when malformed."""
    try:
        return frozenset(ref for ref in _walk(spec) if _is_text(ref.name))
    except (AttributeError, TypeError):
        return frozenset()  # a hostile API said so; the verdict table rejects such a pod


def _is_text(value: object) -> bool:
    return isinstance(value, str)


ACCOUNT_TOKEN = "AccountToken"  # noqa: S105 - a kind of need
"""Kind of need: the token that all pods of an account share; the name is the account's."""
POD_TOKEN = "PodToken"  # noqa: S105 - a kind of need
"""Kind of need: tokens bound to the pod itself; the name is the pod's UID."""


def needs_of(pod: Mapping[str, Any]) -> frozenset[Ref]:
    """Return what a tenant pod needs below: objects it names, and tokens."""
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

    The tenant's own controller makes them; to the super pod they are claims like any other.
    """
    try:
        name = pod["metadata"]["name"]
        return {
            volume["name"]: f"{name}-{volume['name']}"
            for volume in pod["spec"].get("volumes") or ()
            if volume.get("ephemeral") is not None
        }
    except (AttributeError, KeyError, TypeError):
        return {}  # a hostile API said so; the verdict table rejects such a pod


def is_made_for(claim: Mapping[str, Any], pod_uid: str) -> bool:
    """Tell whether a claim is one that a controller made for an ephemeral volume of a pod.

    Two pods may spell the same name, and anybody may make a claim of it.
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
    """Return how a user that is no pod is spelled; no pod has a slash in its name."""
    return f"{kind}/{name}"


class References:
    """Who refers to what, kept from the pods and Ingresses of one tenant."""

    def __init__(self) -> None:
        self._of_user: dict[tuple[str, str], frozenset[Ref]] = {}
        self._users: defaultdict[tuple[str, Ref], set[str]] = defaultdict(set)

    def set(self, namespace: str, user: str, refs: Iterable[Ref]) -> frozenset[Ref]:
        """Record what a pod needs now, or another `user_of`; returns the refs that came or went."""
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
        """Tell whether anybody needs the object."""
        return (namespace, ref) in self._users

    def is_shared(self, namespace: str, ref: Ref) -> bool:
        """Tell whether more than one needs the object."""
        return len(self._users.get((namespace, ref), ())) > 1

    def users(self, namespace: str, ref: Ref) -> frozenset[str]:
        """Return who needs the object: pods by their names, others as `user_of` spells them."""
        return frozenset(self._users.get((namespace, ref), ()))
