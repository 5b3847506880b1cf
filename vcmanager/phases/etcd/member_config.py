"""ConfigMap from which etcd pods read their members at a start, and the number of these pods.

Pure. Owns the ConfigMap `etcd-members`. Pods read it as environment variables, so that a change
restarts no pod. Only a member without data uses it. etcd ignores it if there is data.

Hazard: a pod of several members that lost its data must not start with its old ID
(`vcmanager.phases.etcd.membership`). Once etcd has formed, the list therefore has the URLs of all
members, as etcd demands, but the name of a pod only while that pod joins. etcd compares URLs, and
it exits if the list does not have its own name.

Hazard: the single member of a store may start with an empty disk, as it always could. The syncer's
delete protection notices that.
"""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass

import orjson

from kubeio import Object
from vcmanager.phases.etcd.membership import list_ordinals
from vcmanager.plan import upstream_bundles
from vcmanager.runtime.etcd_stores import Member, StoreReport

CONFIG_MAP = "etcd-members"
LOST_DATA_MESSAGE = "couldn't find local name"
"""Beginning of the error in etcd's last line if it has no data and its name is not in the list."""
_CLUSTER, _STATE = "initial-cluster", "initial-cluster-state"
_IDENTITY, _VOLUMES = "store-identity", "store-volumes"
_ORDINAL = re.compile(r"=https://etcd-([0-9]+)\.etcd:")


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberPlan:
    """Content of the ConfigMap, number of pods, and identity of the store."""

    data: Mapping[str, str]
    replicas: int
    identity: str | None
    """None: unknown while a member is missing for the first time."""

    def build_config_map(self, namespace: str) -> Object:
        """Return the ConfigMap."""
        return {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": CONFIG_MAP, "namespace": namespace},
            "data": dict(self.data),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberInput:
    """All inputs of a plan of the members."""

    desired: int
    """Replicas of the ClusterVersion."""
    config: Mapping[str, str] | None
    """Data of the live ConfigMap. None: there is none."""
    created_with: int | None
    """Members that the live StatefulSet was created for. None: there is no StatefulSet."""
    report: StoreReport | None
    pods: Collection[int]
    """Ordinals of the existing etcd pods."""
    volumes: str | None
    """Identity of the volumes of all pods, None while a pod or claim is missing."""


def build_peer_url(ordinal: int) -> str:
    """Return the peer URL of a member of the short form."""
    return f"https://etcd-{ordinal}.etcd:2380"


def plan_members(wish: MemberInput) -> MemberPlan:
    """Return the plan. Without a report of etcd's own list, nothing changes."""
    config = wish.config
    if config is None:
        config = _build_new(wish.created_with or wish.desired)
    is_guarded = config.get(_STATE) == "existing"
    record = _build_record(wish, config, is_guarded=is_guarded)
    is_known = is_guarded or wish.volumes is not None
    identity = record.get(_IDENTITY) if is_known else None
    members = wish.report.members if wish.report is not None else ()
    ordinals = list_ordinals(members)
    if wish.report is None or not ordinals:
        kept = {_CLUSTER: config[_CLUSTER], _STATE: config[_STATE]}
        replicas = 1 + max(_list_ordinals(config), default=0)
        return MemberPlan(data={**kept, **record}, replicas=replicas, identity=identity)
    replicas = 1 + max(ordinals)
    if is_guarded:
        is_single = ordinals == {0} and wish.desired == 1 and len(members) == 1
        is_back = is_single and set(wish.pods) == {0} and not members[0].is_learner
        made = _build_new(1) if is_back else _build_guarded(members)
    else:
        has_formed = len(ordinals) > 1 and ordinals <= wish.report.answered
        is_changing = ordinals != _list_ordinals(config)
        keeps = not has_formed and not is_changing
        made = (
            {key: config[key] for key in (_CLUSTER, _STATE)} if keeps else _build_guarded(members)
        )
    return MemberPlan(data={**made, **record}, replicas=replicas, identity=identity)


def is_data_lost(pod: Object) -> bool:
    """Return whether the etcd of a pod exits because its volume has no data."""
    for container in (pod.get("status") or {}).get("containerStatuses") or ():
        found = container.get("state") or {}
        if container.get("name") != upstream_bundles.ETCD or "running" in found:
            continue
        for state in (found, container.get("lastState") or {}):
            lines = str((state.get("terminated") or {}).get("message") or "").splitlines()
            if any(map(_is_lost_data_line, lines)):
                return True
    return False


def _is_lost_data_line(line: str) -> bool:
    """Return whether etcd ended with this line.

    Other lines quote names of the tenant's objects, which may have the same text.
    """
    try:
        found = orjson.loads(line)
    except orjson.JSONDecodeError:
        return False
    return (
        isinstance(found, dict)
        and found.get("level") == "fatal"
        and str(found.get("error")).startswith(LOST_DATA_MESSAGE)
    )


def is_joining(ordinal: int, config: Mapping[str, str] | None) -> bool:
    """Return whether the list lets a pod without data join."""
    entries = (config or {}).get(_CLUSTER, "").split(",")
    return any(each.startswith(f"etcd-{ordinal}=") for each in entries)


def get_ordinal(name: str) -> int:
    """Return the ordinal of a pod of a StatefulSet, or -1."""
    tail = name.rpartition("-")[2]
    return int(tail) if tail.isdecimal() else -1


def _build_new(replicas: int) -> dict[str, str]:
    cluster = upstream_bundles.build_initial_cluster("etcd", "etcd", replicas)
    return {_CLUSTER: cluster, _STATE: "new"}


def build_single_patch() -> dict[str, str | None]:
    """Return the patch of the data for a store that was restored as a single member."""
    return {**_build_new(1), _IDENTITY: None, _VOLUMES: None}


def _build_guarded(members: tuple[Member, ...]) -> dict[str, str]:
    entries = [
        f"{f'etcd-{each.ordinal}' if not each.is_started else f'member-{number}'}={each.peer_url}"
        for number, each in enumerate(sorted(members, key=lambda each: each.peer_url))
    ]
    return {_CLUSTER: ",".join(entries), _STATE: "existing"}


def _list_ordinals(config: Mapping[str, str]) -> frozenset[int]:
    return frozenset(map(int, _ORDINAL.findall(config.get(_CLUSTER, ""))))


def _build_record(
    wish: MemberInput, config: Mapping[str, str], *, is_guarded: bool
) -> dict[str, str]:
    """Return identity and volumes of the store.

    Readers of the store restart when the identity changes. A guarded store cannot begin empty, so
    new volumes do not change its identity.
    """
    identity, known = config.get(_IDENTITY), config.get(_VOLUMES)
    if wish.volumes is None:
        return {_IDENTITY: identity, _VOLUMES: known} if identity and known else {}
    if not identity or (wish.volumes != known and not is_guarded):
        identity = wish.volumes
    return {_IDENTITY: identity, _VOLUMES: wish.volumes}
