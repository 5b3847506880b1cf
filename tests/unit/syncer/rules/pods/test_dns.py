"""Resolvers, host names and the hosts file of a super pod."""

from __future__ import annotations

import dataclasses
import subprocess
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from syncer.model.rejections import RejectedError, RejectionProblem
from syncer.rules.pods import dns, pod_build, pod_patch
from syncer.rules.pods.dns import DnsResolver
from tenancy.policies import HostsFileSpec, PodsSpec, TenantPolicySpec
from tenancy.specs import PrimaryNetwork
from tests.support.syncer.pods import FACTS, TENANT, build, pod
from tests.support.syncer.tenant_views import add, policy, view

RESOLVER = DnsResolver(server="10.96.8.10", domain="cluster.local", allows_node_dns=False)


@pytest.mark.parametrize("named", ["ClusterFirst", "ClusterFirstWithHostNet", None])
def test_names_are_resolved_by_the_tenants_server(named):
    own = {"searches": ["corp", "cluster.local"], "options": [{"name": "ndots", "value": "2"}]}
    found = dns.build_dns_config({"dnsPolicy": named, "dnsConfig": own}, "web", RESOLVER)
    assert found == {
        "dnsPolicy": "None",
        "dnsConfig": {
            "nameservers": ["10.96.8.10"],
            "searches": ["web.svc.cluster.local", "svc.cluster.local", "cluster.local", "corp"],
            "options": [{"name": "ndots", "value": "2"}],
        },
    }


def test_a_resolver_of_the_pods_own_stays():
    own = {"nameservers": ["192.0.2.53"], "options": [{"name": "edns0"}]}
    found = dns.build_dns_config({"dnsPolicy": "None", "dnsConfig": own}, "web", RESOLVER)
    assert found == {"dnsPolicy": "None", "dnsConfig": own}


def test_the_nodes_resolver_is_only_for_tenants_with_dns_of_their_own():
    found = dns.build_dns_config({"dnsPolicy": "Default"}, "web", RESOLVER)
    assert found == {"dnsPolicy": "None", "dnsConfig": {"nameservers": ["10.96.8.10"]}}
    free = DnsResolver(server="10.96.8.10", domain="cluster.local", allows_node_dns=True)
    assert dns.build_dns_config({"dnsPolicy": "Default"}, "web", free) == {"dnsPolicy": "Default"}
    none = DnsResolver(server="", domain="cluster.local", allows_node_dns=True)
    assert dns.build_dns_config({"dnsPolicy": "ClusterFirst"}, "web", none) == {
        "dnsPolicy": "Default"
    }


@pytest.mark.parametrize("mode", ["managed", "tenant", "none"])
@pytest.mark.parametrize("address", [None, "10.96.8.77", "None"])
@pytest.mark.parametrize("wanted", ["ClusterFirst", "Default"])
def test_no_mode_of_dns_opens_the_resolver_of_the_node(mode, address, wanted):
    """SEC-54: the owner of a VirtualCluster sets `spec.dns`, and no policy."""
    own = view(dns=mode)
    if address is not None:
        spec = {"clusterIP": address}
        add(own.stores["Service"], "kube-dns", namespace="kube-system", spec=spec)
    resolver = dns.resolver_of(own)
    assert not resolver.allows_node_dns
    found = dns.build_dns_config({"dnsPolicy": wanted}, "web", resolver)
    server = "10.96.8.77" if address == "10.96.8.77" else "10.96.8.10"
    assert (found["dnsPolicy"], found["dnsConfig"]["nameservers"]) == ("None", [server])
    allowing = dataclasses.replace(own, policy=policy(network={"nodeDns": "Allow"}))
    found = dns.build_dns_config({"dnsPolicy": "Default"}, "web", dns.resolver_of(allowing))
    assert found == {"dnsPolicy": "Default"}
    if mode != "managed" and server == "10.96.8.10":
        resolver = dns.resolver_of(allowing)
        found = dns.build_dns_config({"dnsPolicy": "ClusterFirst"}, "web", resolver)
        assert found == {"dnsPolicy": "Default"}


def test_resolver_of_a_tenant_is_that_of_its_network():
    servers = ("192.0.2.1", "192.0.2.2", "192.0.2.3")
    network = PrimaryNetwork(driver="multus-primary", cidr="10.20.0.0/16", dns=servers)
    own = view(network=network, cluster_domain="own.local")
    assert dns.resolver_of(own) == DnsResolver("192.0.2.1", "own.local", False, servers[1:])
    allowing = dataclasses.replace(own, policy=policy(network={"nodeDns": "Allow"}))
    assert dns.resolver_of(allowing).allows_node_dns
    elsewhere = dataclasses.replace(own, get_target_network=lambda: Target(servers[1:]))
    assert dns.resolver_of(elsewhere) == DnsResolver("192.0.2.2", "own.local", False, servers[2:])
    nowhere = dataclasses.replace(own, get_target_network=lambda: Target(()))
    assert dns.resolver_of(nowhere) == DnsResolver("", "own.local", False, ())


@pytest.mark.parametrize(
    ("mode", "allowed", "server"),
    [
        ("managed", "Allow", "10.96.8.10"),
        ("none", "Allow", ""),
        ("none", "Refuse", "10.96.8.10"),
    ],
)
def test_a_dns_service_is_expected_where_the_node_must_not_be_asked(mode, allowed, server):
    own = dataclasses.replace(view(dns=mode), policy=policy(network={"nodeDns": allowed}))
    assert dns.resolver_of(own).server == server


class Target(NamedTuple):
    """The part of a target's network that names servers."""

    resolvers: tuple[str, ...]


NO_RESOLVER = (
    "would use the resolver of the node. Set dnsPolicy None with name servers of your own, or ask"
    " your platform administrator to set spec.network.nodeDns of the TenantPolicy"
)


def test_a_pod_that_has_only_the_resolver_of_the_node_left_is_refused():
    none = DnsResolver(server="", domain="cluster.local", allows_node_dns=False)
    for wanted in ("ClusterFirst", "Default", "ClusterFirstWithHostNet"):
        with pytest.raises(RejectedError) as raised:
            dns.build_dns_config({"dnsPolicy": wanted}, "web", none)
        assert raised.value.problems == (
            RejectionProblem("node-dns", "spec.dnsPolicy", NO_RESOLVER),
        )
    own = {"dnsPolicy": "None", "dnsConfig": {"nameservers": ["192.0.2.1"]}}
    assert dns.build_dns_config(own, "web", none) == own


def test_all_resolvers_of_another_super_cluster_are_asked_in_their_order():
    there = DnsResolver(
        server="10.98.0.10",
        domain="c.local",
        allows_node_dns=False,
        additional_servers=("10.98.0.11", "::7"),
    )
    own = {"nameservers": ["10.98.0.11"]}
    for named in ("Default", "ClusterFirst"):
        found = dns.build_dns_config({"dnsPolicy": named, "dnsConfig": own}, "web", there)
        assert found["dnsPolicy"] == "None"
        assert found["dnsConfig"]["nameservers"] == ["10.98.0.10", "10.98.0.11", "::7"]


def test_a_whole_domain_name_as_host_name_is_the_tenants():
    spec = {"setHostnameAsFQDN": True, "subdomain": "db", "hostname": "db-0"}
    found = dns.build_host_name(spec, "db-0", "web", "cluster.local")
    assert found == {"hostnameOverride": "db-0.db.web.svc.cluster.local"}
    assert dns.build_host_name({**spec, "setHostnameAsFQDN": False}, "p", "web", "d") == {}
    with pytest.raises(RejectedError):
        dns.build_host_name(spec, "db-0", "n" * 50, "cluster.local")


# --- resolvers ------------------------------------------------------------------------------------


@pytest.mark.parametrize("option", ["ndots", {}, {"name": 1}, {"value": "5"}, None])
def test_a_resolver_option_without_a_name_is_refused(option):
    own = {"options": [option]}
    with pytest.raises(RejectedError) as raised:
        dns.build_dns_config({"dnsPolicy": "None", "dnsConfig": own}, "web", RESOLVER)
    (problem,) = raised.value.problems
    assert (problem.rule, problem.path) == ("malformed", "spec.dnsConfig.options")
    assert problem.text == "must have a name. Correct the object"


@pytest.mark.parametrize("field", ["nameservers", "searches"])
@pytest.mark.parametrize("value", ["text", [1], [None], {"a": "b"}])
def test_a_resolver_list_of_anything_but_texts_is_refused(field, value):
    with pytest.raises(RejectedError) as raised:
        dns.build_dns_config({"dnsPolicy": "None", "dnsConfig": {field: value}}, "web", RESOLVER)
    (problem,) = raised.value.problems
    assert (problem.rule, problem.path) == ("unknown-field", f"spec.dnsConfig.{field}")
    assert problem.text == "is malformed, or not known to this version. Leave it out"


def test_a_pods_own_resolver_settings_are_kept_beside_the_nodes_and_behind_ours():
    own = {"nameservers": ["192.0.2.1", "192.0.2.2", "192.0.2.3"], "searches": ["corp"]}
    free = RESOLVER._replace(allows_node_dns=True)
    assert dns.build_dns_config({"dnsPolicy": "Default", "dnsConfig": own}, "web", free) == {
        "dnsPolicy": "Default",
        "dnsConfig": own,
    }
    found = dns.build_dns_config({"dnsPolicy": "Default", "dnsConfig": own}, "web", RESOLVER)
    assert found["dnsConfig"] == {
        "nameservers": ["10.96.8.10", "192.0.2.1", "192.0.2.2"],
        "searches": ["corp"],
    }


def test_a_host_name_of_its_own_goes_before_the_pods_name():
    spec = {"setHostnameAsFQDN": True, "subdomain": "db"}
    named = dns.build_host_name({**spec, "hostname": "own"}, "p", "web", "c.local")
    assert named == {"hostnameOverride": "own.db.web.svc.c.local"}
    assert dns.build_host_name(spec, "p", "web", "c.local") == {
        "hostnameOverride": "p.db.web.svc.c.local"
    }


# --- the hosts file -------------------------------------------------------------------------------

IMAGE = "registry.example/busybox:1"
POLICY = TenantPolicySpec(pods=PodsSpec(hosts_file=HostsFileSpec(image=IMAGE)))
OF_A_SET = {"hostname": "web-0", "subdomain": "nginx"}
MOUNT = {"name": "vc-hosts", "mountPath": "/etc/hosts", "subPath": "hosts"}


def built(**spec: Any) -> pod_build.BuiltPod:
    return pod_build.build_super_pod(pod(**spec), FACTS._replace(policy=POLICY))


def test_it_is_off_by_default():
    spec = build(pod(**OF_A_SET))["spec"]
    assert "initContainers" not in spec
    assert "volumes" not in spec


@pytest.mark.parametrize(
    "spec",
    [
        {},
        {"hostname": "web-0"},
        {**OF_A_SET, "setHostnameAsFQDN": True},
        {**OF_A_SET, "hostnameOverride": "own"},
    ],
)
def test_where_a_kubelet_writes_no_domain_nothing_is_added(spec):
    assert "initContainers" not in built(**spec).pod["spec"]
    assert not dns.needs_hosts_file({**OF_A_SET, "hostNetwork": True})


def test_every_container_mounts_the_rewritten_file():
    own = {"name": "data", "mountPath": "/data"}
    near = {**own, "mountPath": "/etc/hostsX"}
    made = built(
        **OF_A_SET,
        initContainers=[{"name": "setup", "image": "i"}],
        containers=[
            {"name": "main", "image": "i", "volumeMounts": [own]},
            {"name": "own", "image": "i", "volumeMounts": [{**own, "mountPath": "/etc/hosts/"}]},
            {"name": "near", "image": "i", "volumeMounts": [near]},
        ],
        volumes=[{"name": "data", "emptyDir": {}}],
    )
    spec = made.pod["spec"]
    writer, setup = spec["initContainers"]
    assert (writer["name"], writer["image"]) == ("vc-hosts", IMAGE)
    assert writer["imagePullPolicy"] == "IfNotPresent"
    assert writer["volumeMounts"] == [{"name": "vc-hosts", "mountPath": "/vc-hosts"}]
    assert setup["volumeMounts"] == [MOUNT], "also before the pod runs"
    assert spec["containers"][0]["volumeMounts"] == [own, MOUNT]
    assert spec["containers"][1]["volumeMounts"] == [{**own, "mountPath": "/etc/hosts/"}]
    assert spec["containers"][2]["volumeMounts"] == [near, MOUNT]
    assert spec["volumes"] == [{"name": each, "emptyDir": {}} for each in ("data", "vc-hosts")]
    assert "vc-hosts" not in made.pod["metadata"]["annotations"]["tenancy.x-k8s.io/containers"]
    assert made.adjustments == ()


def test_the_init_container_is_allowed_at_the_level_restricted():
    context = built(**OF_A_SET).pod["spec"]["initContainers"][0]["securityContext"]
    assert context["allowPrivilegeEscalation"] is False
    assert context["capabilities"] == {"drop": ["ALL"]}
    assert context["runAsNonRoot"] is True
    assert context["seccompProfile"] == {"type": "RuntimeDefault"}


@pytest.mark.parametrize(
    ("resources", "copied"),
    [
        (None, {}),
        ({"limits": {"example.com/gpu": "1"}}, {}),
        (
            {"limits": {"cpu": "1", "memory": "1Gi", "example.com/gpu": "1"}, "requests": {}},
            {"limits": {"cpu": "1", "memory": "1Gi"}},
        ),
        ({"requests": {"cpu": "1"}}, {"requests": {"cpu": "1"}}),
    ],
)
def test_the_quality_of_service_stays(resources, copied):
    container = {"name": "main", "image": "i", **({"resources": resources} if resources else {})}
    spec = built(**OF_A_SET, containers=[container, {"name": "other", "image": "i"}]).pod["spec"]
    assert spec["initContainers"][0]["resources"] == copied


@pytest.mark.parametrize(
    "spec",
    [
        {"containers": [{"name": "vc-hosts", "image": "i"}]},
        {"volumes": [{"name": "vc-hosts", "emptyDir": {}}]},
    ],
)
def test_a_pod_with_the_name_is_reported_and_runs_without(spec):
    made = built(**OF_A_SET, **spec)
    (notice,) = made.adjustments
    assert (notice.rule, notice.path) == ("hosts-file", "spec")
    assert "Rename it" in notice.text
    assert "initContainers" not in made.pod["spec"]


def test_a_running_pod_is_left_alone():
    tenant_pod = pod(**OF_A_SET)
    made = pod_build.build_super_pod(tenant_pod, FACTS._replace(policy=POLICY)).pod
    live = {**made, "metadata": {**made["metadata"], "uid": "twin"}}
    assert pod_patch.build_running_patch(tenant_pod, live, TENANT) is None


HOSTS = """# Kubernetes-managed hosts file.
127.0.0.1\tlocalhost
::1\tlocalhost ip6-localhost ip6-loopback
10.1.2.3\tweb-0.nginx.{namespace}.svc.super.example\tweb-0
fd00::3\tweb-0.nginx.{namespace}.svc.super.example\tweb-0

# Entries added by HostAliases.
10.1.2.9\tnginx.example\tother.svc.example
"""


def test_the_script_writes_the_tenants_name(tmp_path: Path):
    """With the sed of this machine, on a file as a kubelet writes it."""
    (tmp_path / "etc").write_text(HOSTS.format(namespace=FACTS.super_namespace))
    shell, option, script = built(**OF_A_SET).pod["spec"]["initContainers"][0]["command"]
    script = script.replace("/etc/hosts", f"{tmp_path}/etc").replace("/vc-hosts/", f"{tmp_path}/")
    subprocess.run([shell, option, script], check=True, timeout=10)
    plain = HOSTS.replace("super.example", "cluster.local").format(namespace="web")
    assert (tmp_path / "hosts").read_text() == plain
