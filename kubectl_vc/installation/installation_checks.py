"""Checks of the installation: from the CRDs to the targets. Pure."""

from kubectl_vc.diagnosis.object_facts import (
    Body,
    find_waiting,
    get_event_time,
    get_message,
    get_metadata,
    get_spec,
    get_status,
)
from kubectl_vc.diagnosis.pod_layers import IMAGE_REASONS
from kubectl_vc.diagnosis.tenant_layers import STALE_LEASE_SECONDS
from kubectl_vc.installation.check_table import LinkCheck, LinkState
from kubectl_vc.installation.installation_facts import InstallationFacts, ReadableBodies
from kubectl_vc.installation.webhook_checks import check_webhooks
from tenancy import conditions, super_clusters, wellknown
from tenancy.resources import (
    CLUSTER_VERSIONS,
    SUPER_CLUSTERS,
    SYNC_RULES,
    TENANT_POLICIES,
    VIRTUAL_CLUSTER_SNAPSHOTS,
    VIRTUAL_CLUSTERS,
)

CRD_NAMES = tuple(
    f"{each.plural}.{each.group}"
    for each in (
        VIRTUAL_CLUSTERS,
        CLUSTER_VERSIONS,
        TENANT_POLICIES,
        SUPER_CLUSTERS,
        VIRTUAL_CLUSTER_SNAPSHOTS,
        SYNC_RULES,
    )
)
DEFAULT_CLASS_KEY = "storageclass.kubernetes.io/is-default-class"
_INSTALL_COMMAND = "helm upgrade --install virtual-cluster CHART -n vc-manager"
_MAX_SHOWN = 5


def _find_named(bodies: ReadableBodies, name: str) -> Body | None:
    return next((each for each in bodies or () if get_metadata(each).get("name") == name), None)


def _join(names: list[str]) -> str:
    shown = ", ".join(names[:_MAX_SHOWN])
    return f"{shown} and {len(names) - _MAX_SHOWN} more" if len(names) > _MAX_SHOWN else shown


def is_ready(body: Body, kind: str = "Ready") -> bool:
    """Return whether an object has a condition that is True."""
    return conditions.is_true(get_status(body).get("conditions"), kind)


def _check_crds(facts: InstallationFacts) -> LinkState:
    found = {
        str(get_metadata(each).get("name")): each
        for each in facts.custom_resource_definitions or ()
    }
    missing = [name for name in CRD_NAMES if name not in found]
    if missing:
        return LinkState(
            "wrong",
            f"CustomResourceDefinitions are missing: {', '.join(missing)}. If the kubeconfig is a"
            " tenant's, use the super cluster's kubeconfig.",
            _INSTALL_COMMAND,
        )
    deleted = [name for name in CRD_NAMES if "deletionTimestamp" in get_metadata(found[name])]
    if deleted:
        return LinkState(
            "wrong",
            f"CustomResourceDefinitions are being deleted with all of their objects:"
            f" {', '.join(deleted)}.",
            f"kubectl describe crd {deleted[0]}",
        )
    pending = [name for name in CRD_NAMES if not is_ready(found[name], "Established")]
    if pending:
        return LinkState(
            "wrong",
            f"CustomResourceDefinitions are not established: {', '.join(pending)}.",
            f"kubectl describe crd {pending[0]}",
        )
    return LinkState("ok", f"{len(CRD_NAMES)} CustomResourceDefinitions are established.")


def find_image_problem(pods: ReadableBodies) -> tuple[str, str] | None:
    """Return pod and sentence of the first pod whose image cannot be pulled."""
    for pod in pods or ():
        found = find_waiting(pod, IMAGE_REASONS)
        if found is not None:
            name = str(get_metadata(pod).get("name"))
            container, reason, said = found
            text = f"The image of the container {container} of the pod {name} cannot be pulled"
            return name, f"{text}: {reason}: {said}"
    return None


def _check_images(facts: InstallationFacts) -> LinkState:
    found = find_image_problem(facts.pods)
    if found is None:
        return LinkState("ok", "No pod of a component waits for its image.")
    name, text = found
    return LinkState("wrong", text, f"kubectl -n {facts.manager_namespace} describe pod {name}")


def _check_deployment(facts: InstallationFacts, name: str) -> LinkState:
    body = _find_named(facts.deployments, name)
    command = f"kubectl -n {facts.manager_namespace} describe deployment {name}"
    if body is None:
        return LinkState(
            "wrong",
            f"The Deployment {facts.manager_namespace}/{name} does not exist. If it is in another"
            " namespace, use --manager-namespace.",
            _INSTALL_COMMAND,
        )
    wanted = int(get_spec(body).get("replicas", 1))
    ready = int(get_status(body).get("readyReplicas") or 0)
    if ready == 0:
        return LinkState("wrong", f"None of {wanted} replicas of {name} is ready.", command)
    if ready < wanted:
        return LinkState("note", f"Only {ready} of {wanted} replicas of {name} are ready.", command)
    return LinkState("ok", f"{ready} of {wanted} replicas are ready.")


def _check_manager(facts: InstallationFacts) -> LinkState:
    return _check_deployment(facts, wellknown.MANAGER)


def _check_syncer(facts: InstallationFacts) -> LinkState:
    return _check_deployment(facts, wellknown.SYNCER)


def _check_lease(facts: InstallationFacts, name: str) -> LinkState:
    lease = _find_named(facts.leases, name)
    spec = get_spec(lease)
    command = f"kubectl -n {facts.manager_namespace} logs deployment/{name}"
    if lease is None or not spec.get("holderIdentity"):
        return LinkState("wrong", f"No replica of {name} holds its Lease.", command)
    age = facts.get_age_seconds(str(spec.get("renewTime") or ""))
    if age > STALE_LEASE_SECONDS:
        return LinkState(
            "wrong",
            f"The Lease of {name} was last renewed at {spec.get('renewTime')}. No replica works.",
            command,
        )
    return LinkState("ok", f"A replica of {name} renews its Lease.")


def _check_manager_lease(facts: InstallationFacts) -> LinkState:
    return _check_lease(facts, wellknown.MANAGER)


def _check_syncer_lease(facts: InstallationFacts) -> LinkState:
    return _check_lease(facts, wellknown.SYNCER)


def _check_nodes(facts: InstallationFacts) -> LinkState:
    nodes = facts.nodes or ()
    down = [str(get_metadata(each).get("name")) for each in nodes if not is_ready(each)]
    if len(down) == len(nodes):
        return LinkState("wrong", "The super cluster has no ready node.", "kubectl get nodes")
    cordoned = [
        name
        for name, each in ((str(get_metadata(node).get("name")), node) for node in nodes)
        if get_spec(each).get("unschedulable") and name not in down
    ]
    if len(down) + len(cordoned) == len(nodes):
        return LinkState(
            "wrong",
            f"No new pod gets a node, because all ready nodes are cordoned: {_join(cordoned)}.",
            f"kubectl uncordon {cordoned[0]}",
        )
    if down:
        return LinkState("note", f"Nodes are not ready: {_join(down)}.", "kubectl get nodes")
    if cordoned:
        return LinkState("note", f"Nodes are cordoned: {_join(cordoned)}.", "kubectl get nodes")
    return LinkState("ok", f"{len(nodes)} nodes are ready.")


def _check_agents(facts: InstallationFacts) -> LinkState:
    body = _find_named(facts.daemon_sets, wellknown.AGENT)
    command = f"kubectl -n {facts.manager_namespace} get pods -o wide"
    if body is None:
        return LinkState(
            "wrong",
            f"The DaemonSet {facts.manager_namespace}/{wellknown.AGENT} does not exist, so logs and"
            " exec fail.",
            _INSTALL_COMMAND,
        )
    serving = {
        str(get_spec(each).get("nodeName"))
        for each in facts.pods or ()
        if is_ready(each) and _is_agent(each)
    }
    without = [
        name
        for name in (str(get_metadata(each).get("name")) for each in facts.nodes or ())
        if name not in serving
    ]
    wanted = int(get_status(body).get("desiredNumberScheduled") or 0)
    ready = int(get_status(body).get("numberReady") or 0)
    if ready < wanted or wanted == 0:
        return LinkState(
            "wrong",
            f"{ready} of {wanted} node agents are ready. Nodes without one: {_join(without)}."
            " Logs and exec fail there.",
            command,
        )
    if without:
        return LinkState("note", f"Nodes have no node agent: {_join(without)}.", command)
    return LinkState("ok", f"{ready} of {wanted} node agents are ready.")


def _is_agent(pod: Body) -> bool:
    owners = get_metadata(pod).get("ownerReferences") or ()
    return any(each.get("name") == wellknown.AGENT for each in owners)


def _check_kubelets(facts: InstallationFacts) -> LinkState:
    if not facts.agent_events:
        return LinkState("ok", "No node agent reports a kubelet that it cannot call directly.")
    event = max(facts.agent_events, key=get_event_time)
    return LinkState(
        "note",
        f"{len(facts.agent_events)} node agents call their kubelet through the API server:"
        f" {get_message(event)}",
        f"kubectl -n {facts.manager_namespace} get events"
        f" --field-selector reason={wellknown.UPSTREAM_API_SERVER}",
    )


def _check_storage(facts: InstallationFacts) -> LinkState:
    classes = facts.storage_classes or ()
    present = {str(get_metadata(each).get("name")) for each in classes}
    has_default = any(
        (get_metadata(each).get("annotations") or {}).get(DEFAULT_CLASS_KEY) == "true"
        for each in classes
    )
    for version in facts.cluster_versions or ():
        spec = get_spec(version)
        if not spec.get("kubernetesVersion"):
            continue  # a bundle names its own volumes
        name = str((spec.get("etcdStorage") or {}).get("className") or "")
        shown = get_metadata(version).get("name")
        if name and name not in present:
            return LinkState(
                "wrong",
                f"The ClusterVersion {shown} names the StorageClass {name}, which does not exist.",
                "kubectl get storageclasses",
            )
        if not name and not has_default:
            return LinkState(
                "wrong",
                f"There is no default StorageClass, which the etcd of the ClusterVersion {shown}"
                " needs.",
                "kubectl get storageclasses",
            )
    return LinkState("ok", f"{len(present)} StorageClasses exist for the etcd of tenants.")


def _check_service_range(facts: InstallationFacts) -> LinkState:
    found = facts.service_cidrs or ()
    if not found:
        return LinkState(
            "wrong",
            "There is no ServiceCIDR, so tenants get no service range.",
            "kubectl get servicecidrs",
        )
    broken = [str(get_metadata(each).get("name")) for each in found if not is_ready(each)]
    if len(broken) == len(found):
        return LinkState(
            "wrong",
            f"No ServiceCIDR is ready: {_join(broken)}.",
            f"kubectl describe servicecidr {broken[0]}",
        )
    ranges = [str(cidr) for each in found for cidr in get_spec(each).get("cidrs") or ()]
    return LinkState("ok", f"The service range is {_join(ranges)}.")


def _check_versions(facts: InstallationFacts) -> LinkState:
    if not facts.cluster_versions:
        return LinkState(
            "wrong",
            "There is no ClusterVersion, so no tenant can be created.",
            "kubectl get clusterversions",
        )
    return LinkState("ok", f"{len(facts.cluster_versions)} ClusterVersions exist.")


def _check_targets(facts: InstallationFacts) -> LinkState:
    broken = [
        str(get_metadata(each).get("name"))
        for each in facts.super_clusters or ()
        if not is_ready(each, super_clusters.READY)
        and get_metadata(each).get("name") != super_clusters.HOME
    ]
    if broken:
        return LinkState(
            "wrong",
            f"Targets are not ready: {_join(broken)}.",
            f"kubectl vc target doctor {broken[0]}",
        )
    return LinkState("ok", "No target is in trouble.")


INSTALLATION_CHECKS: tuple[LinkCheck, ...] = (
    LinkCheck("crds", ("custom_resource_definitions",), _check_crds),
    LinkCheck("nodes", ("nodes",), _check_nodes),
    LinkCheck("webhooks", ("webhook_servers",), check_webhooks),
    LinkCheck("images", ("pods",), _check_images),
    LinkCheck("manager", ("deployments",), _check_manager),
    LinkCheck("manager-lease", ("leases",), _check_manager_lease),
    LinkCheck("syncer", ("deployments",), _check_syncer),
    LinkCheck("syncer-lease", ("leases",), _check_syncer_lease),
    LinkCheck("agents", ("daemon_sets", "nodes", "pods"), _check_agents),
    LinkCheck("kubelets", ("agent_events",), _check_kubelets),
    LinkCheck("versions", ("cluster_versions",), _check_versions),
    LinkCheck("storage", ("storage_classes", "cluster_versions"), _check_storage),
    LinkCheck("service-range", ("service_cidrs",), _check_service_range),
    LinkCheck("targets", ("super_clusters",), _check_targets),
)
"""Each link needs the links before it."""
