"""Limits on containers: registries, the pull policy, reserved names and the grace of probes."""

from __future__ import annotations

from typing import Any

import pytest

from syncer.model.rejections import RejectedError
from syncer.rules import container_limits
from syncer.rules.container_limits import ImageRepository
from syncer.rules.pods import ephemeral_containers, pod_build, pod_patch
from tenancy.policies import BASELINE_POLICY, TenantPolicySpec, parse_tenant_policy
from tests.support.syncer.pods import FACTS, TENANT, build, pod

DIGEST = f"sha256:{'a' * 64}"


def policy(**spec: Any) -> TenantPolicySpec:
    return parse_tenant_policy({"metadata": {"name": "p"}, "spec": spec})


def built(tenant_pod: dict[str, Any], limits: TenantPolicySpec) -> pod_build.BuiltPod:
    return pod_build.build_super_pod(tenant_pod, FACTS._replace(policy=limits))


def refused(tenant_pod: dict[str, Any], limits: TenantPolicySpec) -> list[tuple[str, str]]:
    with pytest.raises(RejectedError) as raised:
        built(tenant_pod, limits)
    return [(problem.rule, problem.path) for problem in raised.value.problems]


@pytest.mark.parametrize(
    ("image", "registry", "path"),
    [
        ("nginx", "docker.io", "library/nginx"),
        ("nginx:1.27", "docker.io", "library/nginx"),
        (f"nginx@{DIGEST}", "docker.io", "library/nginx"),
        (f"nginx:1.27@{DIGEST}", "docker.io", "library/nginx"),
        ("bitnami/redis:7", "docker.io", "bitnami/redis"),
        ("docker.io/nginx", "docker.io", "library/nginx"),
        ("index.docker.io/nginx", "docker.io", "library/nginx"),
        ("ghcr.io/team/app:1", "ghcr.io", "team/app"),
        ("localhost/app", "localhost", "app"),
        ("localhost:5000/app:1", "localhost:5000", "app"),
        ("registry:5000/a/b:1", "registry:5000", "a/b"),
        ("registry/a/b", "docker.io", "registry/a/b"),
        ("Registry/a/b", "Registry", "a/b"),
        ("registry.example.com:443/x@sha512:ff", "registry.example.com:443", "x"),
    ],
)
def test_an_image_is_found_in_the_registry_that_containerd_asks(image, registry, path):
    assert container_limits.parse_image(image) == ImageRepository(registry, path)


@pytest.mark.parametrize(
    "image", ["", " nginx", "a b", "x\n", DIGEST, "sha256:abc", "0123abcdef", "ghcr.io/", "-x", "é"]
)
def test_an_image_id_or_no_name_at_all_is_in_no_registry(image):
    assert container_limits.parse_image(image) is None
    assert not container_limits.is_image_offered(
        image, policy(images={"registries": ["docker.io"]}).images
    )


@pytest.mark.parametrize(
    ("listed", "image", "is_offered"),
    [
        ([], "anything/at:all", True),
        (["docker.io"], "nginx", True),
        (["docker.io/library"], "nginx", True),
        (["docker.io/library"], "bitnami/redis", False),
        (["docker.io/library/nginx"], f"nginx@{DIGEST}", True),
        (["ghcr.io"], "ghcr.io/a/b", True),
        (["ghcr.io"], "ghcr.io.evil.example/a/b", False),
        (["ghcr.io"], "ghcr.io:443/a/b", False),
        (["ghcr.io"], "nginx", False),
        (["ghcr.io"], "evil.example/ghcr.io/a", False),
        (["ghcr.io/team"], "ghcr.io/team/app", True),
        (["ghcr.io/team/"], "ghcr.io/team/app", True),
        (["ghcr.io/team"], "ghcr.io/teammate/app", False),
        (["ghcr.io/team"], "ghcr.io/team/../other/app", True),  # no registry accepts such a path
        (["r.example:5000"], "r.example:5000/app", True),
    ],
)
def test_registries_are_compared_by_whole_parts(listed, image, is_offered):
    """SEC-53: a registry with a similar name is another one."""
    images = policy(images={"registries": listed}).images
    assert container_limits.is_image_offered(image, images) is is_offered


LISTED = policy(images={"registries": ["ghcr.io"]}, storage={"imageVolumes": "Allow"})
GOOD, BAD = "ghcr.io/a/b:1", "evil.example/x:1"


@pytest.mark.parametrize(
    ("spec", "path"),
    [
        ({"containers": [{"name": "main", "image": BAD}]}, "spec.containers[0].image"),
        (
            {
                "initContainers": [{"name": "init", "image": BAD}],
                "containers": [{"name": "main", "image": GOOD}],
            },
            "spec.initContainers[0].image",
        ),
        (
            {
                "containers": [{"name": "main", "image": GOOD}],
                "volumes": [{"name": "v", "image": {"reference": BAD}}],
            },
            "spec.volumes[0].image.reference",
        ),
    ],
)
def test_every_image_of_a_pod_is_judged(spec, path):
    """SEC-53: init containers and image volumes, too."""
    assert refused(pod(**spec), LISTED) == [("image-registry", path)]
    assert built(pod(**spec), policy(storage={"imageVolumes": "Allow"}))


def debugged(item: dict[str, Any], limits: TenantPolicySpec) -> tuple[list[Any], list[str]]:
    tenant_pod, twin = pod(ephemeralContainers=[item]), build(pod())
    facts = FACTS._replace(policy=limits)
    found, problems = ephemeral_containers.split_addable(tenant_pod, twin, facts)
    return found, [problem.rule for problem in problems]


def test_the_image_of_a_debug_container_is_judged_and_pulled_alike():
    """SEC-53: ephemeral containers are containers."""
    assert debugged({"name": "debugger", "image": BAD}, LISTED) == ([], ["image-registry"])
    always = policy(images={"registries": ["ghcr.io"], "pullPolicy": "Always"})
    item = {"name": "debugger", "image": GOOD, "imagePullPolicy": "Never"}
    (found,), problems = debugged(item, always)
    assert (found["imagePullPolicy"], problems) == ("Always", [])
    assert debugged({"name": "istio-proxy", "image": GOOD}, LISTED)[1] == ["reserved-container"]


def test_the_new_image_of_a_running_container_is_judged():
    twin, tenant_pod = build(pod()), pod()
    twin["metadata"]["uid"] = "below-uid"
    tenant_pod["spec"]["containers"][0]["image"] = BAD
    assert pod_patch.build_running_patch(tenant_pod, twin, TENANT) is not None
    with pytest.raises(RejectedError, match=r"spec\.images\.registries of the TenantPolicy"):
        pod_patch.build_running_patch(tenant_pod, twin, TENANT, policy=LISTED)
    tenant_pod["spec"]["containers"][0]["image"] = GOOD
    assert pod_patch.build_running_patch(tenant_pod, twin, TENANT, policy=LISTED)


@pytest.mark.parametrize("own", [None, "IfNotPresent", "Never", "Always"])
def test_a_policy_makes_kubelets_ask_the_registry_at_each_start(own):
    """SEC-53: with the credentials of the pod."""
    chosen = {} if own is None else {"imagePullPolicy": own}
    volume = {"name": "v", "image": {"reference": GOOD, "pullPolicy": "Never"}}
    tenant_pod = pod(
        containers=[{"name": "main", "image": GOOD, **chosen}],
        initContainers=[{"name": "init", "image": GOOD, **chosen}],
        volumes=[volume],
    )
    allowing = {"storage": {"imageVolumes": "Allow"}}
    spec = built(tenant_pod, policy(images={"pullPolicy": "Always"}, **allowing)).pod["spec"]
    assert {each["imagePullPolicy"] for each in (*spec["containers"], *spec["initContainers"])} == {
        "Always"
    }
    assert spec["volumes"][0]["image"]["pullPolicy"] == "Always"
    spec = built(tenant_pod, policy(**allowing)).pod["spec"]
    assert spec["containers"][0].get("imagePullPolicy") == own


@pytest.mark.parametrize("kind", ["containers", "initContainers"])
@pytest.mark.parametrize("name", ["istio-proxy", "linkerd-proxy", "vault-agent-init"])
def test_a_name_that_an_injector_merges_into_is_refused(kind, name):
    """SEC-50: the container would partly be the tenant's, with its exec."""
    extra = {"name": name, "image": "i"}
    main = [{"name": "main", "image": "i"}]
    own = pod(**({"containers": [*main, extra]} if kind == "containers" else {kind: [extra]}))
    index = 1 if kind == "containers" else 0
    assert refused(own, BASELINE_POLICY) == [("reserved-container", f"spec.{kind}[{index}].name")]
    assert built(own, policy(pods={"reservedContainerNames": []}))
    assert built(own, policy(pods={"reservedContainerNames": ["other"]}))


@pytest.mark.parametrize("probe", ["livenessProbe", "readinessProbe", "startupProbe"])
@pytest.mark.parametrize(("grace", "synced"), [(601, 600), (10**9, 600), (600, 600), (1, 1)])
def test_the_grace_period_of_a_probe_is_capped_like_that_of_a_pod(probe, grace, synced):
    probed = {probe: {"tcpSocket": {"port": 1}, "terminationGracePeriodSeconds": grace}}
    own = pod(containers=[{"name": "main", "image": "i", **probed}])
    found = built(own, BASELINE_POLICY)
    assert found.pod["spec"]["containers"][0][probe]["terminationGracePeriodSeconds"] == synced
    path = f"spec.containers[0].{probe}.terminationGracePeriodSeconds"
    assert [note.path for note in found.adjustments if note.rule == "grace"] == (
        [path] if grace > synced else []
    )
