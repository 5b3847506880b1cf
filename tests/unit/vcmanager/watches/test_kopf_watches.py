import kopf
import pytest
from kopf._cogs.structs import references

from tenancy import resources, wellknown
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


def test_no_handler_makes_kopf_write_to_an_object():
    registry = kopf_watches._build_registry(endpoint=None, enqueue=[].append)
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
