"""Bad values that a validation rule of a CRD refuses.

Each row runs against a real API server. The sentence is that of the rule.
"""

from __future__ import annotations

from tests.support.bad_fields.rows import BadField, ForbiddenChange

_BUNDLES = {"statefulset": {"apiVersion": "apps/v1"}}
_OTHER = {"group": "example.io", "version": "v1", "kind": "Gadget", "plural": "gadgets"}
_DOWN = {"resource": _OTHER, "direction": "Down", "fields": ["spec.size"]}
_MIRROR = {**_DOWN, "direction": "Mirror"}
_NAMESPACES = {"sourceNamespace": "shared", "tenantNamespace": "shown"}
_STORED = {"s3": {"endpoint": "https://s3.example.com", "bucket": "saved"}}
_CHECKSUM = "0123456789abcdef" * 4
_MANIFEST = {"manifest": {"sha256": _CHECKSUM}}
_EXPRESSION = {"key": "zone", "operator": "In", "values": []}
_KEY_OF_LABELS = "a key of matchLabels must be one that labels can have, such as example.com/tier"
_VALUE_OF_LABELS = "a value of matchLabels must be one that labels can have, such as gold"
_NODE_VALUE = "a value must be one that labels and taints of nodes can have, such as gold"
_SNAPSHOTS = "must be snapshots, or a name that begins with snapshots-"


def _list_storage_rows(kind: str, path: str) -> tuple[BadField, ...]:
    """Return the rows of the storage of snapshots, which two kinds have."""
    rows = (
        ("persistentVolumeClaim.claimName", "data", f"claimName {_SNAPSHOTS}"),
        ("s3.endpoint", "http://s3", "endpoint must be an https URL without a path, such as"),
        ("s3.endpoint", "https://s3.example.com/a", "without a path, such as https://s3.example"),
        ("s3.bucket", "My Bucket", "bucket must be the name of a bucket, 3 to 63 lower-case"),
        ("s3.prefix", "team-a", "prefix must be empty or end with a slash, such as"),
        ("s3.region", "EU 1", "region must be the name of a region such as us-east-1"),
        ("s3.credentialsSecretName", "keys", f"credentialsSecretName {_SNAPSHOTS}"),
        ("s3.caSecretName", "ca", "caSecretName must be empty, snapshots, or a name that begins"),
    )
    return tuple(BadField(kind, f"{path}.{field}", *row) for field, *row in rows)


SCHEMA_ROWS: tuple[BadField, ...] = (
    # ClusterVersion
    *(
        BadField("ClusterVersion", *row)
        for row in (
            ("spec", {}, 'set kubernetesVersion, for example to "1.36", or give the bundles'),
            (
                "spec",
                {"kubernetesVersion": "1.36", "etcd": _BUNDLES, "apiServer": _BUNDLES},
                "exclude each other. Remove one of the two",
            ),
            (
                "spec",
                {"replicas": 3, "etcd": _BUNDLES, "apiServer": _BUNDLES},
                "exclude each other. Remove one of the two",
            ),
            ("spec", {"etcd": _BUNDLES}, "bundles need at least etcd and apiServer. Add the"),
            (
                "spec",
                {"controllerManager": _BUNDLES},
                "bundles need at least etcd and apiServer. Add the missing one",
            ),
            (
                "spec",
                {"etcd": {**_BUNDLES, "metadata": {"name": "store"}}, "apiServer": _BUNDLES},
                "metadata.name of the bundles must be etcd, apiserver and controller-manager",
            ),
            ("spec.kubernetesVersion", "v1.36", 'must be a minor such as "1.36" or a release'),
            ("spec.etcdStorage.size", "big", "must be a quantity above zero such as 2Gi"),
            ("spec.etcdStorage.size", "0", "must be a quantity above zero such as 2Gi"),
            (
                "spec.serviceAnnotations{key}",
                "tenancy.x-k8s.io/own",
                "keys in tenancy.x-k8s.io are reserved for vc-manager. Use other keys",
            ),
            *(
                ("spec.rollout.maxUnavailable", value, "a number above zero, or a percentage")
                for value in (0, "0%", "101%", "half")
            ),
            ("spec.rollout.window.start", "10 pm", 'must be a time of the day in UTC such as "22'),
            ("spec.rollout.window.start", "24:00", 'must be a time of the day in UTC such as "22'),
        )
    ),
    # SuperCluster
    *(
        BadField("SuperCluster", *row)
        for row in (
            ("spec.secretRef.key", "a b", "key must be a key of a Secret, with letters, digits"),
            ("spec.server", "http://10.0.0.5", "server must be an https URL such as https://10"),
            ("spec.labels{}", "a b", _NODE_VALUE),
            ("spec.labels{key}", "a b", "a key of labels must be one that nodes can have, such"),
            ("spec.taints[].key", "a b", "key of a taint must be one that nodes can have, such"),
            ("spec.taints[].value", "-", _NODE_VALUE),
            ("spec.network.podCIDRs[]", "10.244.0.0", "must be a network such as 10.244.0.0/16"),
            ("spec.network.serviceCIDRs[]", "all", "must be a network such as 10.244.0.0/16"),
            ("spec.network.resolvers[]", "dns", "must be an address such as 10.98.0.10"),
        )
    ),
    # SyncRule
    *(
        BadField("SyncRule", *row)
        for row in (
            (
                "spec",
                {**_MIRROR, "references": [{"path": "spec.to", "kinds": ["Secret"]}]},
                "references are for the direction Down only. List the fields in fields",
            ),
            (
                "spec",
                {**_MIRROR, "hostnames": ["spec.hosts[]"]},
                "hostnames are for the direction Down only. List the fields in fields",
            ),
            (
                "spec",
                {**_DOWN, "mirror": _NAMESPACES},
                "mirror is for the direction Mirror only. Remove it",
            ),
            (
                "spec",
                {**_DOWN, "mirrorOwner": {"path": "spec.of"}},
                "mirrorOwner is for the direction Mirror only. Remove it",
            ),
            (
                "spec",
                {**_MIRROR, "mirror": _NAMESPACES, "mirrorOwner": {"path": "spec.of"}},
                "mirrorOwner is for kinds without namespaces, and mirror for the others. Remove",
            ),
            (
                "spec",
                {**_MIRROR, "removalPolicy": "Delete"},
                "removalPolicy Delete is for the direction Down only. Use Keep",
            ),
            (
                "spec",
                {**_MIRROR, "placement": "WithPods"},
                "placement WithPods is for the direction Down only. Use Home",
            ),
            (
                "spec",
                {**_DOWN, "placement": "WithPods", "hostnames": ["spec.hosts[]"]},
                "hostnames are for the placement Home only. Use Home",
            ),
            (
                "spec",
                {**_DOWN, "fields": []},
                "fields, references and hostnames are empty. Name the fields that are synced",
            ),
            ("spec.resource.group", "Example", "group must be an API group such as gateway."),
            ("spec.resource.group", "example.io/v1", "group must be an API group such as"),
            ("spec.resource.version", "1", "version must be a version of an API such as v1"),
            ("spec.resource.kind", "a/b", "kind must be the name of a kind such as HTTPRoute"),
            (
                "spec.resource.plural",
                "../secrets",
                "plural must be the name of a resource in lower case such as httproutes",
            ),
            ("spec.selector.matchLabels{}", "a b", _VALUE_OF_LABELS),
            ("spec.selector.matchLabels{key}", "a b", _KEY_OF_LABELS),
            ("spec.virtualClusterSelector.matchLabels{}", "a b", _VALUE_OF_LABELS),
            ("spec.virtualClusterSelector.matchLabels{key}", "a b", _KEY_OF_LABELS),
            ("spec.mirror.sourceNamespace", "A", "sourceNamespace must be the name of a namesp"),
            ("spec.mirror.tenantNamespace", "*", "tenantNamespace must be the name of a namesp"),
        )
    ),
    # TenantPolicy
    *(
        BadField("TenantPolicy", *row)
        for row in (
            (
                "spec",
                {"security": {"level": "restricted"}, "network": {"hostPorts": "Allow"}},
                "Set network.hostPorts to Refuse or security.level to baseline",
            ),
            (
                "spec.nodes.tolerations[]",
                {"operator": "Equal", "value": "only"},
                "a toleration without a key needs the operator Exists. Name the key of the taint",
            ),
            (
                "spec.nodes.tolerations[]",
                {"key": "tenants", "operator": "Exists", "value": "only"},
                "a toleration with the operator Exists has no value. Remove the value",
            ),
            ("spec.network.ingressHosts[]", "*.example.com", "must be a domain in lower case"),
            ("spec.network.dnsServers[]", "dns", "must be a network such as 10.0.0.0/24, or an"),
            ("spec.network.superRanges[]", "10.0.0.1", "must be a network such as 10.244.0.0/16"),
            (
                "spec.network.attachments.devices[]",
                {"name": "br-shared", "vlans": ["1"], "tenantVlans": "2-3"},
                "a device must not have both vlans and tenantVlans. Keep one of them",
            ),
            (
                "spec.network.attachments.devices[].name",
                "br/0",
                "name of a device must be the name of an interface, such as br-tenants",
            ),
            (
                "spec.network.attachments.devices[].vlans[]",
                "all",
                "must be a number such as 100, or a range such as 200-210",
            ),
            (
                "spec.network.attachments.devices[].tenantVlans",
                "1000-",
                "tenantVlans must be a number such as 100, or a range such as 1000-1999",
            ),
            (
                "spec.network.attachments.devices[].ranges[]",
                "10.100.0.0",
                "an entry of ranges must be a network such as 10.100.0.0/16",
            ),
            ("spec.images.registries[]", "GHCR.io", "a repository in lower case, such as ghcr.io"),
            *(
                ("spec.quota{}", value, "must be a quantity of 0 or more, such as 10, 500m or")
                for value in ("many", "-1")
            ),
            ("spec.sharedObjects[].namespace", "A b", "namespace must be the name of a namespace"),
            (
                "spec.sharedObjects[].tenantNamespaces[]",
                "*",
                "each of the tenantNamespaces must be the name of a namespace, such as shared",
            ),
        )
    ),
    # VirtualCluster
    *(
        BadField("VirtualCluster", *row)
        for row in (
            ("spec.clusterDomain", "a..b", "must be a DNS name such as cluster.local, without"),
            ("spec.clusterDomain", "a.b.", "without a dot at its ends"),
            ("spec.serviceCidr", "10.96.0.0", "must be a network such as 10.96.64.0/22"),
            ("spec.dnsConfig.stubDomains[].domain", "*.a", "domain must be a DNS name in lower"),
            (
                "spec.dnsConfig.stubDomains[].servers[]",
                "dns.example.com",
                "each of the servers must be an IP address, with or without a port, such as",
            ),
            (
                "spec.dnsConfig.forwarders[]",
                "dns.example.com",
                "each of the forwarders must be an IP address, with or without a port, such as",
            ),
            (
                "spec",
                {
                    "clusterVersionName": "v1.36",
                    "sleep": {"workloads": "ScaleToZero"},
                    "targets": [{"name": "c2"}],
                },
                "ScaleToZero cannot be used together with targets. Use Keep, or remove the targets",
            ),
            *(
                (f"spec.{field}", value, f"{field} must be a time such as 2026-12-24T18:00:00Z")
                for field in ("pausedUntil", "expiresAt")
                for value in (
                    *("", "tomorrow", "1h", "2026-12-24", "2026-12-24T18:00:00"),
                    *("2026-12-24t18:00:00z", "2026-02-30T18:00:00Z", "2026-12-24T25:00:00Z"),
                    "0000-12-24T18:00:00Z",
                )
            ),
            ("spec.network.cidr", "10.20.0.1/16", "cidr must be a network such as 10.20.0.0/16"),
            ("spec.network.gateway", "router", "gateway must be an IP address"),
            ("spec.network.gateway", "10.21.0.1", "gateway must be an address in cidr"),
            ("spec.network.dns[]", "dns", "an entry of dns must be an IP address"),
            (
                "spec.auth.jwt[].issuer.url",
                "http://login.example.com",
                "the URL of an issuer must begin with https://",
            ),
            (
                "spec.auth.jwt[].issuer.discoveryURL",
                "http://keys.example.com",
                "the discovery URL of an issuer must begin with https://",
            ),
            ("spec.endpoint", {"port": 8443}, "endpoint.port needs endpoint.hostname, because"),
            (
                "spec.endpoint.hostname",
                "shop.example.com:443",
                "must be a lower-case DNS name such as shop.example.com, without a port",
            ),
            *(
                (
                    "spec.targets[].namespaceSelector.matchExpressions[]",
                    value,
                    "In and NotIn need values, Exists and DoesNotExist must have none",
                )
                for value in (_EXPRESSION, {**_EXPRESSION, "operator": "Exists", "values": ["a"]})
            ),
            *(
                ("spec.deletionGracePeriod", value, "must be a duration such as 24h or 30m, and at")
                for value in ("1d", "24", "8761h")
            ),
            *(
                ("spec.snapshotSchedule.interval", value, "such as 24h or 90m, at least 10m and at")
                for value in ("1d", "@daily", "9m", "8761h")
            ),
        )
    ),
    *_list_storage_rows("VirtualCluster", "spec.snapshotSchedule.storage"),
    # VirtualClusterSnapshot
    *_list_storage_rows("VirtualClusterSnapshot", "spec.storage"),
    BadField(
        "VirtualClusterSnapshot",
        "spec",
        {"virtualClusterName": "shop", "imported": _MANIFEST, "storage": _STORED},
        "an imported snapshot needs a claim. Remove storage.s3",
    ),
    *(
        BadField(
            "VirtualClusterSnapshot",
            "spec.retention.keepFor",
            value,
            "keepFor must be a duration such as 168h, and at most 87600h",
        )
        for value in ("7d", "87601h")
    ),
    BadField(
        "VirtualClusterSnapshot",
        "spec.imported.manifest.sha256",
        "no",
        "sha256 must be a SHA-256 checksum, 64 hexadecimal digits in lower case",
    ),
)
_NO_CLUSTER_CHANGE = "cannot change, because existing Services have addresses in it. Create another"
_NO_SNAPSHOT_CHANGE = "cannot change. Create another VirtualClusterSnapshot"
FORBIDDEN_CHANGES: tuple[ForbiddenChange, ...] = (
    ForbiddenChange(
        "SyncRule",
        "resource",
        {**_OTHER, "kind": "Widget"},
        _OTHER,
        "resource is immutable. Create another rule",
    ),
    ForbiddenChange(
        "SyncRule", "direction", "Down", "Mirror", "direction is immutable. Create another rule"
    ),
    ForbiddenChange(
        "SyncRule", "placement", "Home", "WithPods", "placement is immutable. Create another rule"
    ),
    ForbiddenChange(
        "VirtualCluster",
        "clusterDomain",
        "one.example",
        "other.example",
        "clusterDomain cannot change, because running pods and certificates use it. Create another",
    ),
    *(
        ForbiddenChange(
            "VirtualCluster", "serviceCidr", before, after, f"serviceCidr {_NO_CLUSTER_CHANGE}"
        )
        for before, after in (
            ("10.96.64.0/22", "10.96.68.0/22"),
            (None, "10.96.68.0/22"),
            ("10.96.64.0/22", None),
        )
    ),
    ForbiddenChange(
        "VirtualClusterSnapshot",
        "virtualClusterName",
        "shop",
        "other",
        f"virtualClusterName {_NO_SNAPSHOT_CHANGE}",
    ),
    ForbiddenChange(
        "VirtualClusterSnapshot",
        "storage",
        {"persistentVolumeClaim": {"claimName": "snapshots"}},
        {"persistentVolumeClaim": {"claimName": "snapshots-b"}},
        f"storage {_NO_SNAPSHOT_CHANGE}",
    ),
    *(
        ForbiddenChange(
            "VirtualClusterSnapshot",
            "imported",
            before,
            after,
            f"imported {_NO_SNAPSHOT_CHANGE}",
        )
        for before, after in (
            (_MANIFEST, {"manifest": {"sha256": _CHECKSUM[::-1]}}),
            (None, _MANIFEST),
            (_MANIFEST, None),
        )
    ),
)
