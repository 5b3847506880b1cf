"""Valid specs of our kinds. Together they have each field, so that any one can be made wrong."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import yaml

from clusterversions import catalog

Spec = dict[str, Any]

_RESOURCES = {"requests": {"cpu": "100m"}, "limits": {"memory": "4Gi"}}
_SELECTOR = {"matchLabels": {"tier": "gold"}}
_CLASSES = {"names": ["fast"], "matchLabels": {"tier": "gold"}}
_S3 = {
    "endpoint": "https://s3.example.com",
    "bucket": "snapshots",
    "prefix": "team-a/",
    "region": "eu-1",
    "credentialsSecretName": "snapshots-s3",
    "caSecretName": "snapshots-ca",
}
_STORAGE = {"persistentVolumeClaim": {"claimName": "snapshots"}, "s3": _S3}


def _read_bundles() -> Spec:
    """Return the spec of a ClusterVersion with whole objects. Each component has a Service."""
    spec: Spec = yaml.safe_load(catalog.read_sample("upstream-shape"))["spec"]
    name = "controller-manager"
    spec["controllerManager"]["service"] = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name},
        "spec": {"ports": [{"port": 10257}], "selector": {"component-name": name}},
    }
    return spec


_CLUSTER_VERSION: Spec = {
    "kubernetesVersion": "1.36",
    "replicas": 3,
    "serviceType": "ClusterIP",
    "etcdStorage": {"size": "2Gi", "className": "fast"},
    "extraArgs": {
        "etcd": {"snapshot-count": "5000"},
        "apiServer": {"v": "4"},
        "controllerManager": {"v": "2"},
    },
    "resources": dict.fromkeys(
        ("etcd", "apiServer", "controllerManager", "dns", "metricsServer"), _RESOURCES
    ),
    "nodeSelector": {"pool": "planes"},
    "tolerations": [
        {
            "key": "planes",
            "operator": "Equal",
            "value": "only",
            "effect": "NoExecute",
            "tolerationSeconds": 60,
        }
    ],
    "priorityClassName": "planes",
    "imagePullSecrets": [{"name": "pull"}],
    "serviceAnnotations": {"example.com/pool": "internal"},
    "encryption": {"provider": "aescbc"},
    "audit": {
        "level": "Metadata",
        "policy": {"rules": [{"level": "Metadata"}]},
        "log": {"output": "File", "maxSizeMiB": 10, "maxBackups": 2},
        "webhook": {"secretName": "receiver"},
    },
    "rollout": {
        "maxUnavailable": "10%",
        "maxFailed": 1,
        "deadlineSeconds": 600,
        "paused": False,
        "window": {"start": "22:00", "durationMinutes": 60, "days": ["Mon"]},
    },
}
_SUPER_CLUSTER: Spec = {
    "secretRef": {"name": "c2", "key": "kubeconfig", "context": "c2"},
    "server": "https://10.0.0.5:6443",
    "tlsServerName": "c2.example.com",
    "mode": "agent",
    "labels": {"example.com/tier": "gold"},
    "taints": [{"key": "example.com/only", "value": "gold", "effect": "NoSchedule"}],
    "network": {
        "podCIDRs": ["10.244.0.0/16"],
        "serviceCIDRs": ["10.96.0.0/16"],
        "resolvers": ["10.96.0.10"],
        "reachable": False,
    },
}
_WIDGETS = {"group": "example.io", "version": "v1", "kind": "Widget", "plural": "widgets"}
_DOWN_RULE: Spec = {
    "resource": _WIDGETS,
    "direction": "Down",
    "selector": _SELECTOR,
    "virtualClusterSelector": _SELECTOR,
    "fields": ["spec.size"],
    "references": [
        {"path": "spec.to", "kinds": ["ConfigMap"], "form": "Object", "required": False}
    ],
    "hostnames": ["spec.hosts[]"],
    "statusFields": ["status.phase"],
    "statusReferences": ["status.of"],
    "statusOwner": "SuperCluster",
    "definition": "Copy",
    "removalPolicy": "Keep",
    "placement": "Home",
}
_MIRRORED: Spec = {"resource": _WIDGETS, "direction": "Mirror", "fields": ["spec.size"]}
_TENANT_POLICY: Spec = {
    "security": {"level": "baseline", "runtimeClassName": "kata", "hostUsers": "Allow"},
    "sync": {
        "configMaps": "Referenced",
        "secrets": "Referenced",
        "ingresses": "Allow",
        "networkPolicies": "Allow",
        "podDisruptionBudgets": "Allow",
        "blockingDisruptionBudgets": "Refuse",
        "storageClasses": _CLASSES,
        "ingressClasses": _CLASSES,
        "volumeSnapshotClasses": _CLASSES,
        "csiDrivers": _CLASSES,
        "priorityClasses": _CLASSES,
        "runtimeClasses": _CLASSES,
    },
    "nodes": {
        "view": "Minimal",
        "expose": "all",
        "selector": {"pool": "tenants"},
        "tolerations": [
            {"key": "tenants", "operator": "Equal", "value": "only", "effect": "NoSchedule"}
        ],
    },
    "network": {
        "serviceTypes": ["ClusterIP"],
        "loadBalancerClasses": ["example.com/internal"],
        "ingressHosts": ["example.com"],
        "catchAllIngresses": "Refuse",
        "hostPorts": "Refuse",
        "dnsServers": ["10.0.0.0/24"],
        "nodeDns": "Allow",
        "superRanges": ["10.244.0.0/16"],
        "implementationSpecificPaths": "Refuse",
        "externalNameBackends": "Refuse",
        "ingressAnnotations": ["nginx"],
        "isolation": "Enforced",
        "endpoints": "OwnPods",
        "attachments": {
            "types": ["bridge"],
            "chained": ["tuning"],
            "devices": [
                {"name": "br-shared", "vlans": ["200-210"], "ranges": ["10.100.0.0/16"]},
                {"name": "br-tenants", "tenantVlans": "1000-1999"},
            ],
            "primaryDevice": "br-tenants",
            "macAddresses": "Refuse",
            "defaultNetwork": "Refuse",
            "multiNetworkPolicies": "Refuse",
        },
    },
    "metadata": {
        "labelDomains": ["example.com"],
        "annotations": {"Service": ["example.com/*"]},
        "opaquePrefixes": ["hidden.example.com"],
        "transparentPrefixes": ["shown.example.com"],
        "transparentAnnotations": {"Pod": ["example.com/ip"]},
    },
    "daemonSets": "Allow",
    "pods": {
        "hostsFile": {"image": "example.com/busybox:1"},
        "autoscaling": {"safeToEvict": "Controlled", "blockingAnnotations": "Refuse"},
        "reservedContainerNames": ["istio-proxy"],
    },
    "storage": {
        "tenantVolumes": {"nfsServers": ["192.0.2.7"], "csiDrivers": ["nfs.csi.k8s.io"]},
        "volumeAttributesClasses": ["fast"],
        "inlineCsiDrivers": ["secrets-store.csi.k8s.io"],
        "reclaimPolicies": ["Delete"],
        "imageVolumes": "Refuse",
    },
    "sharedObjects": [
        {
            "kind": "ConfigMap",
            "namespace": "shared",
            "matchLabels": {"shared": "yes"},
            "tenantNamespaces": ["web"],
            "tenantNamespaceLabels": {"shared": "yes"},
        }
    ],
    "access": {
        "logs": True,
        "exec": True,
        "attach": True,
        "portForward": True,
        "ephemeralContainers": False,
    },
    "images": {"registries": ["ghcr.io"], "pullPolicy": "Tenant"},
    "quota": {"pods": 10},
    "syncRules": {"names": ["widgets"], "matchLabels": {"tier": "gold"}},
    "weight": 2,
}
_POOL_POLICY: Spec = {
    "network": {
        "attachments": {
            "types": ["bridge"],
            "devices": [{"name": "br-tenants", "tenantVlans": "1000-1999"}],
        }
    }
}
_ISSUER: Spec = {
    "url": "https://login.example.com",
    "discoveryURL": "https://keys.example.com/openid",
    "audiences": ["shop"],
    "audienceMatchPolicy": "MatchAny",
}
_AUTHORITY = """\
-----BEGIN CERTIFICATE-----
MIIBfDCCASGgAwIBAgIULRBpbwwfAszPsD0S2dwzGn4Lia8wCgYIKoZIzj0EAwIw
EjEQMA4GA1UEAwwHZXhhbXBsZTAgFw0yNjExMjkxOTIzMTVaGA8yMTI2MTEwNTE5
MjMxNVowEjEQMA4GA1UEAwwHZXhhbXBsZTBZMBMGByqGSM49AgEGCCqGSM49AwEH
A0IABD/rP2uy2ptzYXr4lMjHCaP/A9CsVCX1JEtm3Yac9v0B4wxyeWV2VPX4HP94
iXRP1sk+NXJMXPr1R4uxg2CLSRCjUzBRMB0GA1UdDgQWBBTpYYWOXBi5eQkigm+1
wjds7v6FhjAfBgNVHSMEGDAWgBTpYYWOXBi5eQkigm+1wjds7v6FhjAPBgNVHRMB
Af8EBTADAQH/MAoGCCqGSM49BAMCA0kAMEYCIQCfatTuJyWi1tUC/XPrWrc8vXkg
KtXxhpR8o9XaM6LIVgIhAPucrEFq9tXZPQqW27xUT1SBemDqXqv5F8jU2DB38ePt
-----END CERTIFICATE-----
"""
"""A certificate that no one has the key of."""
_VIRTUAL_CLUSTER: Spec = {
    "clusterVersionName": "v1.36",
    "clusterDomain": "tenant.example",
    "serviceCidr": "10.96.64.0/22",
    "pkiExpireDays": 90,
    "dns": "managed",
    "dnsConfig": {
        "stubDomains": [{"domain": "corp.example.com", "servers": ["8.8.8.8"]}],
        "forwarders": ["8.8.4.4"],
    },
    "metrics": "none",
    "suspend": False,
    "sleep": {"workloads": "Keep"},
    "pausedUntil": "2026-12-24T18:00:00Z",
    "expiresAt": "2026-12-24T18:00:00+01:00",
    "network": {
        "driver": "multus-primary",
        "cidr": "10.20.0.0/16",
        "gateway": "10.20.0.1",
        "dns": ["10.20.0.2"],
    },
    "policyRef": {"name": "baseline"},
    "kubeconfigReaders": [{"kind": "User", "name": "jane"}],
    "auth": {
        "jwt": [
            {
                "issuer": _ISSUER,
                "claimValidationRules": [{"claim": "team", "requiredValue": "shop"}],
                "claimMappings": {
                    "username": {"claim": "sub", "prefix": "oidc:"},
                    "groups": {"claim": "groups", "prefix": "oidc:"},
                    "uid": {"claim": "sub"},
                    "extra": [{"key": "example.com/team", "valueExpression": "claims.team"}],
                },
                "userValidationRules": [
                    {"expression": "user.username != 'root'", "message": "root may not log in"}
                ],
            }
        ]
    },
    "endpoint": {"hostname": "shop.example.com", "port": 8443},
    "kubeconfigSecrets": ["ClusterAPI"],
    "targets": [
        {
            "name": "c2",
            "weight": 10,
            "pods": "all",
            "namespaceSelector": {
                "matchLabels": {"tier": "gold"},
                "matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}],
            },
        }
    ],
    "deletionGracePeriod": "24h",
    "snapshotSchedule": {"interval": "24h", "keep": 7, "storage": _STORAGE},
    "addons": [{"name": "base"}],
    "transparentMetaPrefixes": ["shown.example.com"],
    "opaqueMetaPrefixes": ["hidden.example.com"],
}
_BY_EXPRESSION: Spec = {
    "clusterVersionName": "v1.36",
    "auth": {
        "jwt": [
            {
                "issuer": {
                    "url": "https://login.example.com",
                    "certificateAuthority": _AUTHORITY,
                    "audiences": ["shop"],
                },
                "claimValidationRules": [
                    {"expression": "claims.team == 'shop'", "message": "another team"}
                ],
                "claimMappings": {
                    "username": {"expression": "claims.sub"},
                    "groups": {"expression": "claims.groups"},
                    "uid": {"expression": "claims.sub"},
                },
            }
        ]
    },
}
_CHECKSUM = "0123456789abcdef" * 4
_SNAPSHOT: Spec = {
    "virtualClusterName": "shop",
    "storage": _STORAGE,
    "retention": {"keepFor": "168h"},
}
_IMPORTED: Spec = {
    "virtualClusterName": "shop",
    "imported": {
        "manifest": {
            "virtualClusterUID": "7b0a5f0e-0000-4000-8000-000000000001",
            "virtualClusterSpecSHA256": _CHECKSUM,
            "clusterVersionName": "v1.36",
            "kubernetesVersion": "1.36.4",
            "etcdVersion": "3.7.3",
            "sha256": _CHECKSUM,
            "sizeBytes": 1,
            "revision": 1,
            "objects": 1,
            "secrets": {"ca": _CHECKSUM},
        }
    },
}
VALID_SPECS: Mapping[str, Sequence[Spec]] = {
    "ClusterVersion": (_CLUSTER_VERSION, _read_bundles()),
    "SuperCluster": (_SUPER_CLUSTER,),
    "SyncRule": (
        _DOWN_RULE,
        {**_MIRRORED, "mirror": {"sourceNamespace": "shared", "tenantNamespace": "shown"}},
        {**_MIRRORED, "mirrorOwner": {"path": "spec.of"}},
    ),
    "TenantPolicy": (_TENANT_POLICY, _POOL_POLICY),
    "VirtualCluster": (_VIRTUAL_CLUSTER, _BY_EXPRESSION),
    "VirtualClusterSnapshot": (_SNAPSHOT, _IMPORTED),
}
"""Specs by kind. The first one that has a field is the one in which it is made wrong."""
