"""Control plane of a super cluster in its hub: etcd, API server, controller manager, scheduler.

Owns their flags and configuration files. `minor` is that of the cluster.

Hazard: the audit policy must keep its rules first, because it decides what tests can count. It
records every write, and the reads of the accounts in the namespace vc-manager, and a new rule
before these hides requests from the tests.
"""

from __future__ import annotations

import json
from typing import Any

from tools.testbed import cache
from tools.testbed.artifacts import binaries
from tools.testbed.cluster.components import ClusterFolders, ClusterProgram, flags
from tools.testbed.cluster.pki import KUBELET_AUTHORITIES
from tools.testbed.cluster.topology import API_PORT, HUB, REGISTRY_PORT, Topology

AUDIT_POLICY: dict[str, Any] = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [
        {"level": "Metadata", "verbs": ["create", "update", "patch", "delete", "deletecollection"]},
        {"level": "Metadata", "userGroups": ["system:serviceaccounts:vc-manager"]},
        {"level": "None"},
    ],
}


def write_configuration(topology: Topology, places: ClusterFolders) -> None:
    """Write the files that the flags name."""
    cache.write_atomic(places.config("audit.json"), json.dumps(AUDIT_POLICY, indent=1))
    places.audit_log.parent.mkdir(parents=True, exist_ok=True)
    registry = {
        "version": "0.1",
        "log": {"level": "warn"},
        "storage": {"filesystem": {"rootdirectory": str(places.registry)}},
        "http": {"addr": f"{topology.hub_ip}:{REGISTRY_PORT}"},
    }
    cache.write_atomic(places.config("registry.json"), json.dumps(registry, indent=1))


def registry(places: ClusterFolders) -> ClusterProgram:
    """Return the image registry, which stands in for all public registries."""
    program = str(binaries.path("registry"))
    environment = {"OTEL_TRACES_EXPORTER": "none"}
    argv = (program, "serve", str(places.config("registry.json")))
    return ClusterProgram("registry", HUB, argv, environment)


def etcd(places: ClusterFolders) -> ClusterProgram:
    """Return etcd, without fsync because a test cluster has no valuable data."""
    arguments = {
        "name": "super",
        "data-dir": places.root / "etcd",
        "listen-client-urls": "http://127.0.0.1:2379",
        "advertise-client-urls": "http://127.0.0.1:2379",
        "listen-peer-urls": "http://127.0.0.1:2380",
        "initial-advertise-peer-urls": "http://127.0.0.1:2380",
        "initial-cluster": "super=http://127.0.0.1:2380",
        "quota-backend-bytes": 8 * 1024**3,
        "auto-compaction-retention": "5m",
        "watch-progress-notify-interval": "30s",
    }
    argv = [str(binaries.path("etcd")), *flags(arguments), "--unsafe-no-fsync"]
    return ClusterProgram("etcd", HUB, tuple(argv))


def apiserver(topology: Topology, places: ClusterFolders, minor: str) -> ClusterProgram:
    """Return the super cluster's API server."""
    pki = places.pki
    arguments = {
        "advertise-address": topology.hub_ip,
        "bind-address": "0.0.0.0",  # noqa: S104 of the hub, which no other machine reaches
        "secure-port": API_PORT,
        "etcd-servers": "http://127.0.0.1:2379",
        "service-cluster-ip-range": topology.services,
        "authorization-mode": "Node,RBAC",
        "enable-admission-plugins": "NodeRestriction",
        "allow-privileged": "true",
        "client-ca-file": pki / "ca.crt",
        "tls-cert-file": pki / "apiserver.crt",
        "tls-private-key-file": pki / "apiserver.key",
        "kubelet-certificate-authority": pki / KUBELET_AUTHORITIES,
        "kubelet-client-certificate": pki / "apiserver-kubelet-client.crt",
        "kubelet-client-key": pki / "apiserver-kubelet-client.key",
        "kubelet-preferred-address-types": "InternalIP",
        "requestheader-client-ca-file": pki / "front-proxy-ca.crt",
        "requestheader-allowed-names": "front-proxy-client",
        "requestheader-extra-headers-prefix": "X-Remote-Extra-",
        "requestheader-group-headers": "X-Remote-Group",
        "requestheader-username-headers": "X-Remote-User",
        "proxy-client-cert-file": pki / "front-proxy-client.crt",
        "proxy-client-key-file": pki / "front-proxy-client.key",
        "service-account-issuer": "https://kubernetes.default.svc.cluster.local",
        "service-account-key-file": pki / "service-accounts.pub",
        "service-account-signing-key-file": pki / "service-accounts.key",
        "audit-policy-file": places.config("audit.json"),
        "audit-log-path": places.audit_log,
        "profiling": "false",
    }
    argv = (str(binaries.path("kube-apiserver", minor)), *flags(arguments))
    return ClusterProgram("kube-apiserver", HUB, argv)


def controller_manager(topology: Topology, places: ClusterFolders, minor: str) -> ClusterProgram:
    """Return the controller manager, which signs certificates with the cluster's authority."""
    pki = places.pki
    kubeconfig = pki / "kube-controller-manager.kubeconfig"
    arguments = {
        "kubeconfig": kubeconfig,
        "authentication-kubeconfig": kubeconfig,
        "authorization-kubeconfig": kubeconfig,
        "bind-address": "127.0.0.1",
        "leader-elect": "false",
        "use-service-account-credentials": "true",
        "allocate-node-cidrs": "false",
        "service-cluster-ip-range": topology.services,
        "client-ca-file": pki / "ca.crt",
        "requestheader-client-ca-file": pki / "front-proxy-ca.crt",
        "root-ca-file": pki / "ca.crt",
        "cluster-signing-cert-file": pki / "ca.crt",
        "cluster-signing-key-file": pki / "ca.key",
        "service-account-private-key-file": pki / "service-accounts.key",
        "flex-volume-plugin-dir": "/var/lib/kubelet/volume-plugins",
        # It creates an account and a token for each controller first, 4 s at the default rate.
        "kube-api-qps": 500,
        "kube-api-burst": 1000,
        "profiling": "false",
    }
    argv = (str(binaries.path("kube-controller-manager", minor)), *flags(arguments))
    return ClusterProgram("kube-controller-manager", HUB, argv)


def scheduler(places: ClusterFolders, minor: str) -> ClusterProgram:
    """Return the scheduler, with a call rate that is no bottleneck of load tests."""
    kubeconfig = places.pki / "kube-scheduler.kubeconfig"
    arguments = {
        "kubeconfig": kubeconfig,
        "authentication-kubeconfig": kubeconfig,
        "authorization-kubeconfig": kubeconfig,
        "bind-address": "127.0.0.1",
        "leader-elect": "false",
        "kube-api-qps": 1000,
        "kube-api-burst": 2000,
        "profiling": "false",
    }
    argv = (str(binaries.path("kube-scheduler", minor)), *flags(arguments))
    return ClusterProgram("kube-scheduler", HUB, argv)
