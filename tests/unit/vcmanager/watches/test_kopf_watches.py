import kopf
import pytest
from kopf._cogs.structs import references

from tenancy import resources, wellknown
from vcmanager.runtime.options import OperatorSettings
from vcmanager.watches import kopf_watches


def kopf_resource(resource):
    return references.Resource(
        group=resource.group,
        version=resource.version,
        plural=resource.plural,
        kind=resource.kind,
        namespaced=resource.namespaced,
    )


def test_kopf_never_learns_the_name_of_our_finalizer():
    assert kopf_watches._build_settings().persistence.finalizer != wellknown.FINALIZER


def test_kopf_posts_nothing_and_scans_nothing():
    settings = kopf_watches._build_settings()
    assert not settings.posting.enabled
    assert settings.scanning.disabled
    assert settings.process.ultimate_exiting_timeout is None


@pytest.mark.parametrize("child", kopf_watches.CHILD_RESOURCES, ids=lambda child: child.plural)
def test_children_are_selected_by_the_server(child):
    found = kopf_watches._build_settings().watching.label_selectors.collect(kopf_resource(child))
    assert list(found) == ["tenancy.x-k8s.io/controlled=true,!tenancy.x-k8s.io/namespace"]


def test_only_requests_for_our_signer_are_watched():
    resource = kopf_resource(resources.CERTIFICATE_SIGNING_REQUESTS)
    settings = kopf_watches._build_settings()
    assert list(settings.watching.field_selectors.collect(resource)) == [
        "spec.signerName=tenancy.x-k8s.io/vn-agent-serving"
    ]
    assert not list(settings.watching.label_selectors.collect(resource))


def test_all_virtual_clusters_are_watched():
    resource = kopf_resource(resources.VIRTUAL_CLUSTERS)
    assert not list(kopf_watches._build_settings().watching.label_selectors.collect(resource))


def options(**more):
    return OperatorSettings(registry="", **more)


def tenant(**status):
    metadata = {"namespace": "default", "name": "a", "uid": "u", "generation": 1}
    owner = {"kind": "VirtualClusterControlPlane", "name": "cp", "controller": True}
    return {"metadata": {**metadata, "ownerReferences": [owner]}, "spec": {}, "status": status}


async def queued(settings, *events):
    """Return the kinds of the keys that each event queues, without those of all tenants."""
    woken = []
    handlers = kopf_watches._WatchHandlers(woken.append, settings)
    found = []
    for kind, body in events:
        woken.clear()
        await handlers._on_virtual_cluster(kind, body)
        found.append(sorted({key.kind for key in woken} & {"ClusterProfile", "ControlPlane"}))
    return found


async def test_objects_of_other_projects_follow_the_state_of_a_tenant():
    settings = options(cluster_manager="fleet", cluster_api=True)
    both = ["ClusterProfile", "ControlPlane"]
    events = [
        (None, tenant()),
        ("MODIFIED", tenant()),
        ("MODIFIED", tenant(version="1.36.4")),
        ("MODIFIED", tenant(version="1.36.4", message="for people")),
        ("DELETED", tenant(version="1.36.4")),
    ]
    assert await queued(settings, *events) == [both, [], both, [], ["ControlPlane"]]


async def test_without_the_values_nothing_of_other_projects_is_queued():
    assert await queued(options(), (None, tenant()), ("DELETED", tenant())) == [[], []]


async def test_control_planes_are_watched_only_by_a_provider():
    for is_provider in (False, True):
        handlers = kopf_watches._WatchHandlers([].append, options(cluster_api=is_provider))
        kinds = {resource for resource, _ in handlers.list_handlers()}
        assert (resources.VIRTUAL_CLUSTER_CONTROL_PLANES in kinds) is is_provider


async def test_the_owner_of_a_control_plane_enqueues_it():
    woken = []
    handlers = kopf_watches._WatchHandlers(woken.append, options(cluster_api=True))
    body = {"metadata": {"namespace": "default", "name": "cp", "uid": "u"}, "spec": {}}
    await handlers._on_control_plane("ADDED", body)
    await handlers._on_control_plane("MODIFIED", {**body, "status": {"version": "v1.36.4"}})
    assert len(woken) == 1
    owned = {**body["metadata"], "ownerReferences": [{"kind": "Cluster", "name": "c"}]}
    await handlers._on_control_plane("MODIFIED", {**body, "metadata": owned})
    assert len(woken) == 2


def test_no_handler_makes_kopf_write_to_an_object():
    registry = kopf_watches._build_registry(endpoint=None, enqueue=[].append, options=options())
    assert isinstance(registry, kopf.OperatorRegistry)
    assert not list(registry._changing.get_all_handlers())
    assert not list(registry._spawning.get_all_handlers())
    watched = {handler.selector.plural for handler in registry._watching.get_all_handlers()}
    assert watched == {
        "virtualclusters",
        "virtualclustersnapshots",
        "clusterversions",
        "tenantpolicies",
        "superclusters",
        "syncrules",
        "certificatesigningrequests",
        "nodes",
        "namespaces",
        *(child.plural for child in kopf_watches.CHILD_RESOURCES),
    }


async def test_a_change_of_a_policy_enqueues_the_tenants_that_use_it():
    woken = []
    handlers = kopf_watches._WatchHandlers(woken.append, options())
    for name, spec in (
        ("plain", {}),
        ("named", {"policyRef": {"name": "shops"}}),
        ("other", {"policyRef": {"name": "shops"}}),
    ):
        metadata = {"namespace": "default", "name": name, "uid": name}
        await handlers._on_virtual_cluster(None, {"metadata": metadata, "spec": spec})
    woken.clear()
    policy = {"metadata": {"name": "shops", "uid": "p", "generation": 1}}
    await handlers._on_policy(None, policy)
    for kind in ("TenantContent", "VirtualCluster"):
        assert sorted(key.name for key in woken if key.kind == kind) == ["named", "other"]
    woken.clear()
    await handlers._on_policy("MODIFIED", policy)
    assert not [key for key in woken if key.kind in ("TenantContent", "VirtualCluster")]
    await handlers._on_policy("MODIFIED", {"metadata": {"name": "baseline", "uid": "b"}})
    assert [key.name for key in woken if key.kind == "TenantContent"] == ["plain"]
