"""Objects of the metrics API in a tenant, and their removal."""

import pytest

from kubeio import errors
from tenancy import resources, wellknown
from vcmanager.pki import inventory
from vcmanager.plan import metrics_api

ADDRESS = "10.96.8.11"


def keys_of(found):
    return {
        (each["kind"], each["metadata"].get("namespace", ""), each["metadata"]["name"])
        for each in found
    }


class MetricsTenantApi:
    """Stands for a tenant's API: knows objects by kind and name, remembers what was deleted."""

    def __init__(self, *objects):
        self.objects = {(each["kind"], each["metadata"]["name"]): each for each in objects}
        self.deleted = []

    async def get(self, resource, name, *, namespace="", metadata_only=False):
        assert metadata_only
        assert bool(namespace) is resource.namespaced
        if (resource.kind, name) not in self.objects:
            raise errors.NotFound(f"there is no {name}")
        return self.objects[resource.kind, name]

    async def delete(self, resource, name, *, namespace="", uid):
        assert uid == self.objects[resource.kind, name]["metadata"]["uid"]
        assert bool(namespace) is resource.namespaced
        self.deleted.append((resource.kind, name))


def there(manifest):
    """Return an object as the API server has it."""
    metadata = {**manifest["metadata"], "uid": f"uid-{manifest['metadata']['name']}"}
    return {**manifest, "metadata": metadata}


def everything():
    made = [
        *metrics_api.build_rbac(),
        *metrics_api.build_service(ADDRESS),
        metrics_api.build_api_service(b"authority"),
    ]
    return [there(each) for each in made]


def test_the_metrics_server_reads_nodes_and_pods_and_asks_who_asks():
    rights = {}
    for each in metrics_api.build_rbac():
        if each["kind"].endswith("Binding"):
            assert [(who["kind"], who["name"]) for who in each["subjects"]] == [
                ("User", wellknown.METRICS_USER)
            ]
            rights[each["roleRef"]["name"]] = each["kind"], each["metadata"].get("namespace", "")
    assert rights == {
        "tenancy:metrics-server": ("ClusterRoleBinding", ""),
        "system:auth-delegator": ("ClusterRoleBinding", ""),
        "extension-apiserver-authentication-reader": ("RoleBinding", "kube-system"),
    }
    roles = {
        each["metadata"]["name"]: each
        for each in metrics_api.build_rbac()
        if each["kind"] == "ClusterRole"
    }
    (rule,) = roles["tenancy:metrics-server"]["rules"]
    assert (rule["resources"], rule["verbs"]) == (["nodes", "pods"], ["get", "list", "watch"])


def test_the_door_is_one_address_with_a_port_that_the_api_server_finds():
    service, endpoints = metrics_api.build_service(ADDRESS)
    assert service["spec"]["clusterIP"] == ADDRESS
    assert "selector" not in service["spec"], "no controller computes endpoints"
    (port,) = service["spec"]["ports"]
    assert endpoints["metadata"]["labels"]["kubernetes.io/service-name"] == "metrics-server"
    assert endpoints["addressType"] == "IPv4"
    assert endpoints["endpoints"] == [{"addresses": [ADDRESS], "conditions": {"ready": True}}]
    (found,) = endpoints["ports"]
    assert (found["name"], found["port"]) == (port["name"], port["port"])
    assert metrics_api.build_service("fd00::b")[1]["addressType"] == "IPv6"


def test_the_api_server_verifies_the_server_that_it_dials():
    made = metrics_api.build_api_service(b"authority")
    assert made["metadata"]["name"] == "v1beta1.metrics.k8s.io"
    assert made["spec"]["caBundle"] == "YXV0aG9yaXR5"
    assert "insecureSkipTLSVerify" not in made["spec"]
    service = made["spec"]["service"]
    assert f"{service['name']}.{service['namespace']}.svc" == inventory.METRICS_NAME


def test_everything_is_marked_as_ours():
    for each in everything():
        assert each["metadata"]["labels"][wellknown.BOOTSTRAP] == "true"


@pytest.mark.parametrize(
    ("condition", "reached", "reason"),
    [
        (None, False, "Registering"),
        ({"status": "True", "reason": "Passed", "message": "all checks passed"}, True, "Passed"),
        ({"status": "False", "reason": "MissingEndpoints", "message": "none"}, False, None),
        ({"status": "Unknown", "reason": "ServiceAccessError"}, False, None),
        ({"status": "False"}, False, "Registering"),
    ],
)
def test_the_api_servers_own_words_report_whether_it_is_reached(condition, reached, reason):
    status = {"conditions": [{"type": "Available", **condition}]} if condition else {}
    found = metrics_api.read_reachability({"status": status})
    assert found.is_reached is reached
    assert found.reason == (reason or condition["reason"])
    if condition and "message" in condition:
        assert found.message.endswith(condition["message"])


async def test_all_that_was_made_is_taken_away_the_group_first():
    inside = MetricsTenantApi(*everything())
    await metrics_api.delete_objects(inside)
    made = {(kind, name) for kind, _, name in keys_of(everything())}
    assert set(inside.deleted) == made
    assert len(inside.deleted) == len(made)
    assert inside.deleted[0] == ("APIService", "v1beta1.metrics.k8s.io")


async def test_what_a_tenant_has_by_these_names_is_left_alone():
    own = everything()
    for each in own:
        each["metadata"]["labels"] = {"app": "my-own"}
    inside = MetricsTenantApi(*own)
    await metrics_api.delete_objects(inside)
    await metrics_api.delete_api_service(inside)
    assert inside.deleted == []


async def test_what_is_gone_already_is_no_problem():
    inside = MetricsTenantApi()
    await metrics_api.delete_objects(inside)
    assert inside.deleted == []


def test_its_group_is_watched():
    assert resources.API_SERVICES in metrics_api.WATCHED_RESOURCES
