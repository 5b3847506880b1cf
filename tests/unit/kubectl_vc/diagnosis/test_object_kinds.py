"""Names of objects and VirtualClusters, as a user writes them."""

import pytest

from kubectl_vc.diagnosis.object_kinds import ObjectName, parse_object_name, parse_tenant_name
from kubectl_vc.output.cli_errors import UsageError
from tenancy.resources import DEPLOYMENTS, PODS, Resource


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("/web", "is not KIND/NAME"),
        ("pod/", "is not KIND/NAME"),
        ("wid_get/web", "is not a kind. Use one of"),
        ("pod/A_B", "is not a valid object name"),
        ("pod/a/b", "is not a valid object name"),
    ],
)
def test_bad_object_name_is_a_usage_error(text, said):
    with pytest.raises(UsageError, match=said):
        parse_object_name(text)


@pytest.mark.parametrize(
    ("text", "resource"),
    [
        ("Pod/web", PODS),
        ("po/web", PODS),
        ("deploy/web", DEPLOYMENTS),
        ("pods.v1/web", PODS),
        ("deployments.v1.apps/web", DEPLOYMENTS),
        ("deployments.apps/web", DEPLOYMENTS),
        ("service.serving.knative.dev/web", None),
        ("widget/web", None),
    ],
)
def test_kinds_have_the_spellings_of_kubectl(text, resource):
    found = parse_object_name(text)
    assert (found.resource, found.name) == (resource, "web")


def test_kind_of_another_group_is_never_a_built_in_one():
    knative = Resource("serving.knative.dev", "v1", "services", "Service")
    assert ObjectName(knative, "web").kind == "Service.serving.knative.dev"
    assert ObjectName(PODS, "web").kind == "Pod"


def test_namespace_and_name_of_a_tenant():
    assert parse_tenant_name("a/web") == ("a", "web")
    with pytest.raises(UsageError, match="is not a VirtualCluster"):
        parse_tenant_name("/web")
