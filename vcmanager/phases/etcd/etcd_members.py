"""Number of etcd members of a tenant, fixed when its etcd is created.

Pure. Hazard: the members learn of each other when etcd is first created. A member that is started
with another list finds the old data in its volume or begins a store of its own. The tenant's
objects are then in two stores or in none. Nothing is written while the spec and the existing etcd
differ.
"""

from collections.abc import Mapping
from typing import Any

from vcmanager.plan import control_plane, upstream_bundles
from vcmanager.plan.control_plane import ControlPlane
from vcmanager.runtime.blocked import PhaseBlocked
from vcmanager.runtime.observed import ObservedObjects

ETCD_REPLICAS_CHANGED = "EtcdReplicasChanged"
_RETRY_SECONDS = 60.0


def check_replicas(plan: ControlPlane, snapshot: ObservedObjects, version_name: str) -> None:
    """Refuse a plan with another number of members than the store has. Raises Held."""
    live = snapshot.get("StatefulSet", control_plane.ETCD)
    planned = next(
        each
        for each in plan.workloads
        if (each["kind"], each["metadata"]["name"]) == ("StatefulSet", control_plane.ETCD)
    )
    if live is None or get_member_count(live) == get_member_count(planned):
        return
    raise PhaseBlocked(
        ETCD_REPLICAS_CHANGED,
        f"ClusterVersion {version_name} asks for {get_member_count(planned)} etcd members, but"
        f" this tenant was created with {get_member_count(live)}. The number cannot change,"
        f" because that would split its etcd. Use a ClusterVersion with {get_member_count(live)},"
        f" or create a new VirtualCluster for {get_member_count(planned)}.",
        needs_admin=True,
        retry_after=_RETRY_SECONDS,
    )


def get_member_count(stateful_set: Mapping[str, Any]) -> int:
    """Return the number of members that etcd was created for.

    The number comes from etcd's `--initial-cluster`. The current number of pods may have been
    scaled by hand, and is restored.
    """
    told = upstream_bundles.get_flag_value(
        "--initial-cluster", upstream_bundles.get_command_words(stateful_set)
    )
    if told:
        return len(told.split(","))
    return int(stateful_set["spec"].get("replicas", 1))
