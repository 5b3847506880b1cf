"""`spec.dnsConfig` of a running tenant: its Corefile, its rollout, and what is refused."""

from __future__ import annotations

from kubeio import Object
from tenancy import wellknown
from tenancy.resources import CONFIG_MAPS, DEPLOYMENTS, TENANT_POLICIES, VIRTUAL_CLUSTERS
from tests.integration.vcmanager.conftest import ManagerStage
from tests.support.names import fresh_name

ACCEPTED = wellknown.DNS_CONFIG_ACCEPTED


async def corefile(stage: ManagerStage, cluster: Object) -> str:
    body = await stage.admin.get(CONFIG_MAPS, "coredns", namespace=stage.root(cluster))
    return str(body["data"]["Corefile"])


async def digest(stage: ManagerStage, cluster: Object) -> tuple[str, Object]:
    """Return the digest in the pod template of CoreDNS, and the strategy of its rollout."""
    body = await stage.admin.get(DEPLOYMENTS, "coredns", namespace=stage.root(cluster))
    annotations = body["spec"]["template"]["metadata"]["annotations"]
    return annotations[wellknown.SECRETS_DIGEST], body["spec"]["strategy"]


async def set_spec(stage: ManagerStage, cluster: Object, **spec: Object | None) -> None:
    name = cluster["metadata"]["name"]
    await stage.admin.patch(VIRTUAL_CLUSTERS, name, {"spec": spec}, namespace="default")
    for _ in range(10):
        await stage.bring_up(cluster)
        await stage.run_pods(cluster)


async def test_a_config_of_a_running_tenant_is_rolled_out_without_a_gap(stage: ManagerStage):
    cluster = await stage.declare()
    await stage.bring_up(cluster)
    before, _ = await digest(stage, cluster)
    assert await stage.condition(cluster, ACCEPTED) is None
    config = {
        "stubDomains": [
            {"domain": "corp.internal", "servers": ["192.0.2.53", "10.9.0.1"]},
            {"domain": "svc.cluster.local", "servers": ["192.0.2.53"]},
        ],
        "forwarders": ["198.51.100.1"],
    }
    await set_spec(stage, cluster, dnsConfig=config)
    text = await corefile(stage, cluster)
    assert "corp.internal:1053 {\n    errors\n    forward . 192.0.2.53:53\n" in text
    assert "forward . 198.51.100.1:53" in text
    assert "10.9.0.1" not in text
    assert "svc.cluster.local:1053" not in text
    after, strategy = await digest(stage, cluster)
    assert after != before
    assert strategy["rollingUpdate"] == {"maxUnavailable": 0, "maxSurge": 1}
    found = await stage.condition(cluster, ACCEPTED)
    assert found is not None
    assert (found["status"], found["reason"]) == ("False", "Refused")
    assert "spec.dnsConfig.stubDomains[0].servers[1] '10.9.0.1'" in found["message"]
    assert "spec.dnsConfig.stubDomains[1].domain 'svc.cluster.local'" in found["message"]
    ready = await stage.condition(cluster, "Ready")
    assert ready is not None
    assert ready["status"] == "True"

    policy = {
        "apiVersion": TENANT_POLICIES.api_version,
        "kind": "TenantPolicy",
        "metadata": {"name": fresh_name("policy")},
        "spec": {"network": {"dnsServers": ["10.9.0.0/24"]}},
    }
    await stage.admin.create(TENANT_POLICIES, policy, validation="Strict")
    config["stubDomains"].pop()
    await set_spec(stage, cluster, dnsConfig=config, policyRef={"name": policy["metadata"]["name"]})
    assert "forward . 192.0.2.53:53 10.9.0.1:53" in await corefile(stage, cluster)
    found = await stage.condition(cluster, ACCEPTED)
    assert found is not None
    assert found["status"] == "True"
    await set_spec(stage, cluster, dnsConfig=None)
    assert "forward . /etc/resolv.conf" in await corefile(stage, cluster)
    assert await stage.condition(cluster, ACCEPTED) is None


async def test_addresses_of_the_super_cluster_are_refused(stage: ManagerStage):
    forwarders = ["192.0.2.11", "10.96.0.10", "169.254.169.254"]
    cluster = await stage.declare(dnsConfig={"forwarders": forwarders})
    await stage.bring_up(cluster)
    assert "forward . /etc/resolv.conf" in await corefile(stage, cluster)
    found = await stage.condition(cluster, ACCEPTED)
    assert found is not None
    for index in range(len(forwarders)):
        assert f"spec.dnsConfig.forwarders[{index}]" in found["message"]
