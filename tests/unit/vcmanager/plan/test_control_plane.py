"""The plan, from both shapes: what must be in it, and that its pods may run anywhere."""

from dataclasses import replace

import msgspec
import pytest
import yaml

from clusterversions import catalog
from tenancy.specs import ClusterVersionSpec, EtcdStorage, ExtraArgs, InvalidSpecError
from tests.support.vcmanager.factories import TENANT, bundled, wish
from vcmanager.plan import control_plane, service_cidrs
from vcmanager.plan.service_cidrs import ServiceRange
from vcmanager.runtime import object_metadata

SLICE = ServiceRange(service_cidrs.ip_network("10.96.8.0/22"))
SAMPLE = yaml.safe_load(catalog.read_sample("upstream-shape"))
SHORT = control_plane.build_plan(wish(), SLICE)
BUNDLED = control_plane.build_plan(bundled(SAMPLE), SLICE)
MEASURED = control_plane.build_plan(wish(metrics="managed"), SLICE)


def workload(plan, name):
    return next(
        each
        for each in plan.workloads
        if each["metadata"]["name"] == name and each["kind"] != "ConfigMap"
    )


def pod_specs(plan):
    return {
        each["metadata"]["name"]: each["spec"]["template"]["spec"]
        for each in (*plan.workloads, *plan.metrics)
        if each["kind"] not in ("ConfigMap", "Service")
    }


def arguments(plan, name) -> list[str]:
    return workload(plan, name)["spec"]["template"]["spec"]["containers"][0]["args"]


def test_a_short_form_has_three_stateful_sets_and_a_dns():
    kinds = {(each["kind"], each["metadata"]["name"]) for each in SHORT.workloads}
    assert kinds == {
        ("StatefulSet", "etcd"),
        ("StatefulSet", "apiserver"),
        ("StatefulSet", "controller-manager"),
        ("ConfigMap", "apiserver-config"),
        ("ConfigMap", "coredns"),
        ("Deployment", "coredns"),
    }
    assert SHORT.components == ("etcd", "apiserver", "controller-manager", "coredns")
    assert {each["metadata"]["name"] for each in SHORT.claims} == {"kubernetes", "kube-dns"}


@pytest.mark.parametrize("dns", ["tenant", "none"])
def test_a_tenant_with_its_own_dns_has_none_of_ours(dns):
    plan = control_plane.build_plan(wish(dns=dns), SLICE)
    assert "coredns" not in plan.components
    assert {each["metadata"]["name"] for each in plan.claims} == {"kubernetes"}
    assert not plan.certificate_facts.has_dns


def test_upstreams_shape_has_the_same_components():
    assert BUNDLED.components == SHORT.components
    assert BUNDLED.is_bundled
    assert BUNDLED.is_ephemeral
    assert not SHORT.is_ephemeral
    assert BUNDLED.service_type == "NodePort"


def test_the_claim_of_upstreams_shape_selects_what_its_service_selects():
    claim = next(each for each in BUNDLED.claims if each["metadata"]["name"] == "kubernetes")
    assert claim["spec"]["selector"] == {"component-name": "apiserver"}
    assert claim["spec"]["ports"][0]["targetPort"] == "api"


@pytest.mark.parametrize(
    ("replicas", "is_new", "early"),
    [
        (1, True, {"etcd", "etcd-client", "apiserver-svc", "kubernetes"}),
        (1, False, {"etcd"}),
        (3, True, {"etcd"}),
    ],
)
def test_single_servers_are_reached_before_they_are_ready_until_the_tenant_is_used(
    replicas, is_new, early
):
    version = ClusterVersionSpec(kubernetes_version="1.36", replicas=replicas)
    plan = control_plane.build_plan(wish(version=version, is_new=is_new), SLICE)
    said = {
        each["metadata"]["name"]: each["spec"].get("publishNotReadyAddresses")
        for each in (*plan.services, *plan.claims)
    }
    # An API server keeps no False, so one that is sent would never be as it should.
    assert said == {name: True if name in early else None for name in said}
    assert early <= said.keys()


def test_upstreams_shape_is_reached_when_it_is_ready():
    plan = control_plane.build_plan(replace(bundled(SAMPLE), is_new=True), SLICE)
    claim = next(each for each in plan.claims if each["metadata"]["name"] == "kubernetes")
    assert "publishNotReadyAddresses" not in claim["spec"]


def test_upstreams_shape_without_a_controller_manager_has_none():
    spec = {key: value for key, value in SAMPLE["spec"].items() if key != "controllerManager"}
    plan = control_plane.build_plan(bundled({**SAMPLE, "spec": spec}), SLICE)
    assert "controller-manager" not in plan.components


@pytest.mark.parametrize(
    "given", [wish(metrics="managed"), replace(bundled(SAMPLE), spec=wish(metrics="managed").spec)]
)
def test_a_metrics_server_stands_beside_the_control_plane_in_both_shapes(given):
    plan = control_plane.build_plan(given, SLICE)
    assert plan.components[-1] == "metrics-server"
    service, deployment = plan.metrics
    assert (service["kind"], service["spec"]["clusterIP"]) == ("Service", "10.96.8.11")
    pod = deployment["spec"]["template"]
    assert service["spec"]["selector"].items() <= pod["metadata"]["labels"].items()
    (container,) = pod["spec"]["containers"]
    assert service["spec"]["ports"][0]["targetPort"] == container["ports"][0]["containerPort"]
    # Or it would be made, and waited for, as a part of the control plane.
    others = (*plan.workloads, *plan.services, *plan.claims)
    assert "metrics-server" not in {each["metadata"]["name"] for each in others}


def test_without_being_asked_for_there_is_no_metrics_server():
    for plan in (SHORT, BUNDLED):
        assert plan.metrics == ()
        assert "metrics-server" not in plan.components
        assert not plan.certificate_facts.has_metrics


def test_the_metrics_server_asks_agents_alone_and_verifies_them():
    (container,) = pod_specs(MEASURED)["metrics-server"]["containers"]
    for word in (
        "--secure-port=10250",
        "--kubelet-preferred-address-types=tenancy.x-k8s.io/agent",
        "--kubelet-use-node-status-port",
        "--kubelet-certificate-authority=/etc/kubernetes/pki/trust/agents.crt",
        "--kubelet-client-certificate=/etc/kubernetes/pki/agents/tls.crt",
        "--tls-cert-file=/etc/kubernetes/pki/serving/tls.crt",
        "--profiling=false",
    ):
        assert word in container["args"]
    assert not any("insecure" in word for word in container["args"])
    limits = container["resources"]["limits"]
    memory = {each["name"]: each["value"] for each in container["env"]}["GOMEMLIMIT"]
    assert int(memory.removesuffix("MiB")) < int(limits["memory"].removesuffix("Mi"))
    # A tenant without pods has no data, and namespaces are not deleted while a group is away.
    for probe in ("startupProbe", "readinessProbe"):
        assert container[probe]["httpGet"]["path"] == "/readyz?exclude=metric-storage-ready"


@pytest.mark.parametrize("name", sorted(pod_specs(MEASURED)))
def test_pods_pass_the_restricted_level_and_hold_no_super_credential(name):
    spec = pod_specs(MEASURED)[name]
    assert spec["automountServiceAccountToken"] is False
    assert spec["enableServiceLinks"] is False
    security = spec["securityContext"]
    assert security["runAsNonRoot"] is True
    assert security["runAsUser"] == 65532
    assert security["seccompProfile"] == {"type": "RuntimeDefault"}
    assert not {"hostNetwork", "hostPID", "hostIPC"} & set(spec)
    for volume in spec["volumes"]:
        assert set(volume) - {"name"} <= {"secret", "configMap", "projected", "emptyDir"}
    for container in spec["containers"]:
        inner = container["securityContext"]
        assert inner["allowPrivilegeEscalation"] is False
        assert inner["readOnlyRootFilesystem"] is True
        assert inner["capabilities"] == {"drop": ["ALL"]}
        assert "privileged" not in inner
        assert {"startupProbe", "readinessProbe", "livenessProbe"} <= set(container)
        assert container["startupProbe"]["periodSeconds"] == 1
        assert container["resources"]["requests"]
        assert not any("hostPort" in port for port in container["ports"])


@pytest.mark.parametrize("name", sorted(pod_specs(MEASURED)))
def test_only_the_signer_has_the_key_of_an_authority(name):
    mounted = {
        secret
        for kind, secret in object_metadata.list_mounted_sources(pod_specs(MEASURED)[name])
        if kind == "Secret"
    }
    roots = {"root-ca", "client-authority", "etcd-authority", "front-proxy-authority"}
    assert mounted & roots == ({"client-authority"} if name == "controller-manager" else set())


def test_the_api_server_is_informed_what_the_design_specifies():
    words = arguments(SHORT, "apiserver")
    for word in (
        "--service-cluster-ip-range=10.96.8.0/22",
        "--service-account-issuer=https://kubernetes.default.svc.cluster.local",
        "--service-account-jwks-uri=https://kubernetes.default.svc.cluster.local/openid/v1/jwks",
        "--service-account-extend-token-expiration=false",
        "--disable-admission-plugins=TaintNodesByCondition",
        "--authorization-mode=Node,RBAC",
        "--kubelet-preferred-address-types=tenancy.x-k8s.io/agent,InternalIP",
        "--profiling=false",
        "--etcd-servers=https://etcd-client:2379",
    ):
        assert word in words
    assert not any(word.startswith("--anonymous-auth") for word in words)


def test_unauthenticated_clients_may_only_read_the_health():
    config = next(
        each for each in SHORT.workloads if each["metadata"]["name"] == "apiserver-config"
    )
    document = yaml.safe_load(config["data"]["authentication.yaml"])
    assert document["kind"] == "AuthenticationConfiguration"
    paths = {each["path"] for each in document["anonymous"]["conditions"]}
    assert paths == {"/livez", "/readyz", "/healthz"}


def test_three_replicas_know_each_other():
    """REL-21."""
    version = ClusterVersionSpec(kubernetes_version="1.36", replicas=3)
    plan = control_plane.build_plan(wish(version=version), SLICE)
    assert workload(plan, "etcd")["spec"]["replicas"] == 3
    assert workload(plan, "apiserver")["spec"]["replicas"] == 3
    assert workload(plan, "controller-manager")["spec"]["replicas"] == 2
    assert "--leader-elect=true" in arguments(plan, "controller-manager")
    assert "--leader-elect=false" in arguments(SHORT, "controller-manager")
    assert arguments(plan, "apiserver") == arguments(SHORT, "apiserver"), "scaling restarts pods"
    assert plan.certificate_facts.etcd_replicas == 3


def test_a_slow_store_is_not_restarted_for_that_alone():
    """REL-20: whether it lives is asked without the disk, and it has minutes to answer."""
    container = workload(SHORT, "etcd")["spec"]["template"]["spec"]["containers"][0]
    alive, starting = container["livenessProbe"], container["startupProbe"]
    assert alive["httpGet"]["path"] == "/livez"
    assert alive["periodSeconds"] * alive["failureThreshold"] >= 120
    assert starting["periodSeconds"] * starting["failureThreshold"] >= 600
    assert alive["timeoutSeconds"] >= 10


def test_the_volume_is_as_asked_for():
    storage = EtcdStorage(size="5Gi", class_name="fast")
    version = ClusterVersionSpec(kubernetes_version="1.36", etcd_storage=storage)
    claim = workload(control_plane.build_plan(wish(version=version), SLICE), "etcd")["spec"][
        "volumeClaimTemplates"
    ][0]["spec"]
    assert claim["storageClassName"] == "fast"
    assert claim["resources"]["requests"]["storage"] == "5Gi"
    default = workload(SHORT, "etcd")["spec"]["volumeClaimTemplates"][0]["spec"]
    assert "storageClassName" not in default


@pytest.mark.parametrize(
    ("size", "limit"),
    [("2Gi", 1_288_490_188), ("10G", 6_000_000_000), ("", 0), ("large", 0), ("-1Gi", 0)],
)
def test_etcd_refuses_writes_before_its_volume_is_full(size: str, limit: int):
    """SEC-66."""
    assert control_plane.compute_etcd_quota(size) == limit


def test_the_limit_of_etcd_follows_the_volume_and_can_be_set():
    storage, flag = EtcdStorage(size="5Gi"), "--quota-backend-bytes="
    version = ClusterVersionSpec(kubernetes_version="1.36", etcd_storage=storage)

    def list_limits(given: ClusterVersionSpec) -> list[str]:
        etcd = workload(control_plane.build_plan(wish(version=given), SLICE), "etcd")
        args = etcd["spec"]["template"]["spec"]["containers"][0]["args"]
        return [each.removeprefix(flag) for each in args if each.startswith(flag)]

    assert list_limits(version) == [str(5 * 2**30 * 60 // 100)]
    own = msgspec.structs.replace(version, extra_args=ExtraArgs(etcd={"quota-backend-bytes": "7"}))
    assert list_limits(own)[-1] == "7"  # the last one takes effect


def test_a_bad_domain_is_refused_in_both_shapes():
    for each in (
        wish(cluster_domain="a b"),
        replace(bundled(SAMPLE), spec=wish(cluster_domain="a b").spec),
    ):
        with pytest.raises(InvalidSpecError, match="clusterDomain"):
            control_plane.build_plan(each, SLICE)


def test_a_plan_is_never_changed_by_marking():
    before = yaml.safe_dump([*SHORT.workloads, *SHORT.services, *SHORT.claims])
    for each in (*SHORT.workloads, *SHORT.services, *SHORT.claims):
        object_metadata.add_metadata(each, TENANT, {})
    assert yaml.safe_dump([*SHORT.workloads, *SHORT.services, *SHORT.claims]) == before


@pytest.mark.parametrize("plan", [MEASURED, BUNDLED], ids=["short", "bundled"])
def test_pods_mount_only_what_the_manager_makes(plan):
    made = {
        "apiserver-ca",
        "apiserver-etcd-client",
        "apiserver-kubelet-client",
        "client-authority",
        "controller-manager-kubeconfig",
        "coredns-kubeconfig",
        "etcd-ca",
        "front-proxy-ca",
        "metrics-server-agent-client",
        "metrics-server-kubeconfig",
        "metrics-server-serving",
        "root-ca-apiserver",
        "root-ca-controller-manager",
        "root-ca-etcd",
        "serviceaccount-rsa",
    }
    for spec in pod_specs(plan).values():
        for kind, name in object_metadata.list_mounted_sources(spec):
            if kind == "Secret":
                assert name in made
            else:
                assert name in {"trust", "apiserver-config", "coredns"}
