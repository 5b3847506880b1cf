"""Objects that the node tests create: small, quick to start, quick to stop."""

from typing import Any

IMAGE = "busybox:latest"


def pod(name: str, script: str, *, namespace: str = "default", **spec: Any) -> dict[str, Any]:
    """Return a pod with one container `main` that runs a shell script."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "labels": {"app": name}},
        "spec": {
            "terminationGracePeriodSeconds": 1,
            "containers": [container(script)],
            **spec,
        },
    }


def container(script: str, name: str = "main") -> dict[str, Any]:
    """Return a container that runs a shell script."""
    return {
        "name": name,
        "image": IMAGE,
        "imagePullPolicy": "IfNotPresent",
        "command": ["sh", "-c", script],
    }


def sleeper(name: str, *, namespace: str = "default", words: str = "ready") -> dict[str, Any]:
    """Return a pod that prints one line and sleeps, and ends at once when told to."""
    script = f"trap 'exit 0' TERM; echo {words}; sleep 2147483647 & wait"
    return pod(name, script, namespace=namespace)


def deployment(name: str, replicas: int, *, namespace: str = "default") -> dict[str, Any]:
    """Return a Deployment of sleepers."""
    template = sleeper(name, namespace=namespace)
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}}, "spec": template["spec"]},
        },
    }


def job(name: str, script: str, *, namespace: str = "default") -> dict[str, Any]:
    """Return a Job whose pod runs a shell script once."""
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "backoffLimit": 0,
            "template": {
                "spec": {
                    "restartPolicy": "Never",
                    "terminationGracePeriodSeconds": 1,
                    "containers": [container(script)],
                }
            },
        },
    }


def service(name: str, *, namespace: str = "default", **spec: Any) -> dict[str, Any]:
    """Return a Service that selects the pods of that name."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"selector": {"app": name}, "ports": [{"port": 80, "targetPort": 8080}], **spec},
    }


def virtual_cluster(name: str, cluster_version: str = "v1.36", **spec: Any) -> dict[str, Any]:
    """Return a VirtualCluster in namespace default."""
    return {
        "apiVersion": "tenancy.x-k8s.io/v1alpha1",
        "kind": "VirtualCluster",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"clusterVersionName": cluster_version, **spec},
    }
