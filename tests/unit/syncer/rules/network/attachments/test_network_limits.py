"""Objects that cannot be used in a tenant with a network of its own."""

from __future__ import annotations

import pytest

from syncer.model.rejections import ForbiddenObjectError
from syncer.rules.network import ingresses, services
from syncer.rules.network.attachments import network_limits
from tests.support.syncer.attachments import NETWORK, attachment_view
from tests.support.syncer.tenant_views import object_of


def own_view():
    return attachment_view(network=NETWORK)


def test_a_tenant_without_a_network_of_its_own_has_no_limits():
    view = attachment_view()
    assert network_limits.find_service_problem({"spec": {}}, view) is None
    assert network_limits.find_ingress_problem(view) is None


@pytest.mark.parametrize("kind", ["ClusterIP", "NodePort", "LoadBalancer"])
def test_services_with_an_address_are_refused_with_a_remedy(kind):
    said = object_of("Service", spec={"type": kind, "ports": [{"port": 80}]})
    with pytest.raises(ForbiddenObjectError, match="Set clusterIP to None"):
        services.build_service(said, own_view())


def test_headless_services_and_external_names_are_synced():
    for spec in (
        {"clusterIP": "None", "ports": [{"port": 80}]},
        {"type": "ExternalName", "externalName": "db.example.org"},
    ):
        assert services.build_service(object_of("Service", spec=spec), own_view())["spec"]


def test_an_ingress_is_refused():
    with pytest.raises(ForbiddenObjectError, match="Use a proxy"):
        ingresses.build_ingress(object_of("Ingress", spec={}), own_view())


def test_probes_by_the_network_are_refused_and_commands_are_not():
    def problems(probe):
        return list(network_limits.find_pod_problems({"containers": [{"name": "c", **probe}]}))

    assert not problems({"livenessProbe": {"exec": {"command": ["true"]}}})
    found = problems({"readinessProbe": {"httpGet": {"port": 80}}})
    assert [each.path for each in found] == ["spec.containers[c].readinessProbe.httpGet"]
