"""Usage of each kind, as the quota evaluators of Kubernetes count it."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from kubeio.cache.store import Entry, parse_entry
from syncer.rules.configuration import cache_transforms
from syncer.rules.quota import pod_usage, quota_objects, usage
from syncer.rules.quota.usage import MIN_OBJECT_BYTES
from tenancy.policy.quotas import parse_amount, parse_hard

GIB = 2**30


def container(name: str = "c", **resources: Any) -> dict[str, Any]:
    """Return a container with requests and limits."""
    return {"name": name, "resources": resources}


def pod(*containers: Any, init: Any = (), status: Any = None, **spec: Any) -> dict[str, Any]:
    """Return a pod."""
    return {
        "spec": {"containers": list(containers), "initContainers": list(init), **spec},
        "status": status or {},
    }


def read(found: dict[str, str | int]) -> dict[str, int]:
    """Return expected amounts in thousandths."""
    return {name: parse_amount(value) for name, value in found.items()}


def cpu(value: str) -> dict[str, Any]:
    """Return a container that requests CPU."""
    return container(requests={"cpu": value})


PODS: dict[str, tuple[dict[str, Any], dict[str, str | int]]] = {
    "without requests": (pod(container()), {"pods": 1, "count/pods": 1}),
    "requests and limits": (
        pod(
            container(
                requests={"cpu": "100m", "memory": "1Gi"}, limits={"cpu": "1", "memory": "2Gi"}
            ),
            cpu("1"),
        ),
        {
            "pods": 1,
            "count/pods": 1,
            "cpu": "1100m",
            "requests.cpu": "1100m",
            "memory": "1Gi",
            "requests.memory": "1Gi",
            "limits.cpu": "1",
            "limits.memory": "2Gi",
        },
    ),
    "limits without requests, as the API server defaults them": (
        pod(container(limits={"memory": "2Gi"})),
        {
            "pods": 1,
            "count/pods": 1,
            "memory": "2Gi",
            "requests.memory": "2Gi",
            "limits.memory": "2Gi",
        },
    ),
    "an init container needs more than the containers together": (
        pod(cpu("1"), cpu("1"), init=[cpu("3"), cpu("2")]),
        {"pods": 1, "count/pods": 1, "cpu": 3, "requests.cpu": 3},
    ),
    "a sidecar counts beside the containers and later init containers": (
        pod(cpu("1"), init=[cpu("1"), {**cpu("2"), "restartPolicy": "Always"}, cpu("4")]),
        {"pods": 1, "count/pods": 1, "cpu": 6, "requests.cpu": 6},
    ),
    "overhead counts for requests, and for limits that are set": (
        pod(
            container(requests={"cpu": "1", "memory": "1Gi"}, limits={"cpu": "1"}),
            overhead={"cpu": "250m", "memory": "1Gi"},
        ),
        {
            "pods": 1,
            "count/pods": 1,
            "cpu": "1250m",
            "requests.cpu": "1250m",
            "memory": "2Gi",
            "requests.memory": "2Gi",
            "limits.cpu": "1250m",
        },
    ),
    "resources of the whole pod replace the sum": (
        pod(cpu("1"), cpu("1"), resources={"requests": {"cpu": "5"}, "limits": {"cpu": "6"}}),
        {"pods": 1, "count/pods": 1, "cpu": 5, "requests.cpu": 5, "limits.cpu": 6},
    ),
    "extended resources and huge pages": (
        pod(
            container(
                requests={"nvidia.com/gpu": "2", "hugepages-2Mi": "4Mi", "ephemeral-storage": "1Gi"}
            )
        ),
        {
            "pods": 1,
            "count/pods": 1,
            "requests.nvidia.com/gpu": 2,
            "hugepages-2Mi": "4Mi",
            "requests.hugepages-2Mi": "4Mi",
            "ephemeral-storage": "1Gi",
            "requests.ephemeral-storage": "1Gi",
        },
    ),
    "a pod that has ended is an object only": (
        pod(cpu("8"), status={"phase": "Succeeded"}),
        {"count/pods": 1},
    ),
    "a failed pod is an object only": (
        pod(cpu("8"), status={"phase": "Failed"}),
        {"count/pods": 1},
    ),
    "a shrinking pod counts what it still has": (
        pod(
            cpu("1"),
            status={
                "containerStatuses": [{"name": "c", "resources": {"requests": {"cpu": "4"}}}],
            },
        ),
        {"pods": 1, "count/pods": 1, "cpu": 4, "requests.cpu": 4},
    ),
    "a growing pod counts what it wants": (
        pod(
            cpu("4"),
            status={"containerStatuses": [{"name": "c", "allocatedResources": {"cpu": "1"}}]},
        ),
        {"pods": 1, "count/pods": 1, "cpu": 4, "requests.cpu": 4},
    ),
    "malformed resources count as none": (
        pod(container(requests={"cpu": {"a": 1}, "memory": "lots"})),
        {
            "pods": 1,
            "count/pods": 1,
            "cpu": 0,
            "requests.cpu": 0,
            "memory": 0,
            "requests.memory": 0,
        },
    ),
}


@pytest.mark.parametrize("name", PODS)
def test_a_pod_counts_as_the_evaluator_of_kubernetes_counts_it(name: str):
    found, expected = PODS[name]
    assert usage.compute_usage("Pod", found) == read(expected)


def service(kind: str, *ports: Any, **spec: Any) -> dict[str, Any]:
    """Return a Service."""
    return {"spec": {"type": kind, "ports": list(ports), **spec}}


OTHERS: dict[str, tuple[str, dict[str, Any], dict[str, str | int]]] = {
    "a Service": (
        "Service",
        service("ClusterIP", {"port": 1}),
        {"services": 1, "count/services": 1},
    ),
    "node ports count by port": (
        "Service",
        service("NodePort", {"port": 1}, {"port": 2}),
        {"services": 1, "count/services": 1, "services.nodeports": 2},
    ),
    "a load balancer counts its node ports before they are allocated": (
        "Service",
        service("LoadBalancer", {"port": 1}),
        {
            "services": 1,
            "count/services": 1,
            "services.nodeports": 1,
            "services.loadbalancers": 1,
        },
    ),
    "a load balancer without node ports counts those that it names": (
        "Service",
        service(
            "LoadBalancer",
            {"port": 1, "nodePort": 30000},
            {"port": 2},
            allocateLoadBalancerNodePorts=False,
        ),
        {
            "services": 1,
            "count/services": 1,
            "services.nodeports": 1,
            "services.loadbalancers": 1,
        },
    ),
    "a claim": (
        "PersistentVolumeClaim",
        {
            "spec": {
                "storageClassName": "gold",
                "resources": {"requests": {"storage": "5Gi"}},
            }
        },
        {
            "persistentvolumeclaims": 1,
            "count/persistentvolumeclaims": 1,
            "requests.storage": "5Gi",
            "gold.storageclass.storage.k8s.io/requests.storage": "5Gi",
            "gold.storageclass.storage.k8s.io/persistentvolumeclaims": 1,
        },
    ),
    "a claim counts the larger of the request and the allocation": (
        "PersistentVolumeClaim",
        {
            "spec": {"resources": {"requests": {"storage": "5Gi"}}},
            "status": {"allocatedResources": {"storage": "9Gi"}},
        },
        {
            "persistentvolumeclaims": 1,
            "count/persistentvolumeclaims": 1,
            "requests.storage": "9Gi",
        },
    ),
    "a claim for devices": (
        "ResourceClaim",
        {"spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]}}},
        {
            "count/resourceclaims.resource.k8s.io": 1,
            "gpu.deviceclass.resource.k8s.io/devices": 1,
        },
    ),
    "an Ingress": ("Ingress", {}, {"count/ingresses.networking.k8s.io": 1}),
    "a namespace": ("Namespace", {}, {"count/namespaces": 1}),
    "another kind": ("ServiceAccount", {}, {}),
}


@pytest.mark.parametrize("name", OTHERS)
def test_other_kinds_count_as_their_evaluators_count_them(name: str):
    kind, found, expected = OTHERS[name]
    assert usage.compute_usage(kind, found) == read(expected)


@pytest.mark.parametrize("kind", ["ConfigMap", "Secret"])
def test_bytes_of_values_count_and_an_outline_counts_as_its_whole_object(kind: str):
    plural = kind.lower() + "s"
    found = {
        "metadata": {"name": "m", "uid": "u", "annotations": {"a": "é" * 1000}},
        "data": {"key": "x" * 10_000},
        "binaryData": {"b": "YQ=="},
    }
    size = len("a") + 2000 + len("key") + 10_000 + len("b") + 4
    expected = {f"count/{plural}": 1, plural: 1, f"bytes/{plural}": size}
    assert usage.compute_usage(kind, found) == read(expected)
    outline = cache_transforms.build_outline(found)
    assert usage.compute_usage(kind, outline) == read(expected)
    assert usage.compute_usage(kind, cache_transforms.build_outline(outline)) == read(expected)


def test_a_small_object_counts_a_least_number_of_bytes():
    assert usage.compute_usage("ConfigMap", {})["bytes/configmaps"] == MIN_OBJECT_BYTES * 1000


@pytest.mark.parametrize(
    ("hard", "expected"),
    [
        ({}, {"pods": 1, "count/pods": 1}),
        (
            {"cpu": "1"},
            {"pods": 1, "count/pods": 1, "cpu": "100m", "requests.cpu": "100m"},
        ),
        (
            {"limits.memory": "1Gi"},
            {
                "pods": 1,
                "count/pods": 1,
                "memory": "128Mi",
                "requests.memory": "128Mi",
                "limits.memory": "512Mi",
            },
        ),
    ],
)
def test_a_container_without_requests_counts_the_defaults_of_the_limit_range(
    hard: dict[str, Any], expected: dict[str, str | int]
):
    defaults = quota_objects.build_defaults(parse_hard(hard))
    assert usage.compute_usage("Pod", pod(container()), defaults) == read(expected)


def test_a_request_that_is_set_has_no_default():
    defaults = quota_objects.build_defaults(parse_hard({"cpu": "1"}))
    assert pod_usage.compute_total(pod(cpu("2")), "requests", defaults) == {"cpu": 2000}


def test_the_overhead_of_a_runtime_class_counts_before_the_create():
    overhead = {"sandbox": {"cpu": "250m"}}
    found = pod(cpu("1"), runtimeClassName="sandbox")
    whole = usage.add_overhead(found, lambda name: overhead.get(name, {}))
    assert usage.compute_usage("Pod", whole)["cpu"] == 1250
    for other in (pod(cpu("1")), pod(cpu("1"), runtimeClassName="none")):
        same = usage.add_overhead(other, lambda name: overhead.get(name, {}))
        assert usage.compute_usage("Pod", same)["cpu"] == 1000
    written = pod(cpu("1"), runtimeClassName="sandbox", overhead={"cpu": "1"})
    assert usage.add_overhead(written, lambda _: {"cpu": "9"}) is written


def test_a_resize_is_counted_from_its_patch():
    before = pod(cpu("1"), init=[{**cpu("1"), "name": "first"}])
    body = {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "3"}}}]}}
    after = usage.apply_patch("Pod", before, body, "resize")
    assert after is not None
    assert usage.compute_usage("Pod", after)["cpu"] == 3000
    assert usage.apply_patch("Pod", before, body, "") is None  # has no resources


def test_a_merge_patch_is_counted_from_its_result():
    before = service("NodePort", {"port": 1})
    after = usage.apply_patch("Service", before, {"spec": {"type": "LoadBalancer"}}, "")
    assert after is not None
    assert usage.compute_usage("Service", after)["services.loadbalancers"] == 1000
    assert usage.apply_patch("Service", before, {"status": {}}, "status") is None


def entry(found: dict[str, Any], *, generation: int = 1) -> Entry:
    """Return a cached pod."""
    metadata = {"name": "p", "uid": "u", "generation": generation}
    return parse_entry(orjson.dumps({**found, "metadata": metadata}))


def test_only_events_that_may_change_the_usage_of_a_pod_are_decoded():
    pending = entry(pod(cpu("1"), status={"phase": "Pending"}))
    running = entry(pod(cpu("1"), status={"phase": "Running"}))
    ended = entry(pod(cpu("1"), status={"phase": "Failed"}))
    resized = entry(pod(cpu("1"), status={"conditions": [{"type": "PodResizePending"}]}))
    grown = entry(pod(cpu("2")), generation=2)
    assert usage.is_usage_unchanged("Pod", pending, running)
    for other in (ended, resized, grown):
        assert not usage.is_usage_unchanged("Pod", running, other)
    assert not usage.is_usage_unchanged("Service", running, running)
    assert usage.is_usage_unchanged("Ingress", running, running)


def test_text_of_a_tenant_does_not_end_a_pod():
    running = entry(
        pod({**cpu("1"), "args": ['{"phase":"Succeeded"}']}, status={"phase": "Running"})
    )
    ended = entry(pod({**cpu("1"), "args": ['{"phase":"Succeeded"}']}, status={"phase": "Failed"}))
    assert not usage.is_usage_unchanged("Pod", running, ended)


def test_no_event_of_a_claim_for_devices_is_decoded():
    """Its spec never changes. A scheduler writes its status often."""
    old, new = entry({"spec": {}}, generation=0), entry({"status": {"a": 1}}, generation=0)
    assert usage.is_usage_unchanged("ResourceClaim", old, new)
    assert not usage.is_usage_unchanged("PersistentVolumeClaim", old, new)
