"""Limits on tenants' requests to the super cluster that no TenantPolicy field sets.

Pure constants, read by the pod table, the translators and the node mirror. Must not know how
anything is written. The fields of a TenantPolicy are in `tenancy.policies`.
"""

from collections.abc import Mapping

from tenancy import wellknown
from tenancy.policies import NodeView

MAX_GRACE_SECONDS = 600
"""Maximum termination grace period in seconds. A longer period is shortened, with an Event."""

MAX_OBJECT_BYTES = 1_400_000
"""Maximum size of a synced tenant object in bytes. etcd refuses larger objects anyway."""

MAX_READINESS_GATES = 16
MAX_GATE_MESSAGE = 1024

# --- affinity -------------------------------------------------------------------------------------

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"

# --- labels and annotations -----------------------------------------------------------------------

SYNCED_LABEL_DOMAINS = frozenset(
    {
        "app.kubernetes.io",
        "apps.kubernetes.io",
        "batch.kubernetes.io",
        "helm.sh",
        "statefulset.kubernetes.io",
    }
)
"""Domains of labels that only describe an object. A label of any other domain is not synced under
its own key, unless a TenantPolicy lists the domain. Webhooks, queues, meshes and clouds of the
super cluster act on labels of their domains."""

TRIGGER_LABELS = frozenset({"aadpodidbinding", "control-plane", "istio-injection"})
"""Labels without a prefix that webhooks and agents of the super cluster act on."""

SELECTED_KINDS = frozenset({"Pod"})
"""Kinds that selectors find by label in the super cluster. A label of these kinds that is not
synced under its own key has a translated key."""

UNLABELLED_KINDS = frozenset({"ConfigMap", "Secret"})
"""Kinds without labels in the super cluster, except for domains that a TenantPolicy lists. Only
collectors of the super cluster would select by such labels, and they read every namespace."""

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
"""Never synced, because the annotation repeats the whole object, including the dropped fields."""

SYNCED_ANNOTATIONS: Mapping[str, frozenset[str]] = {
    "Pod": frozenset(
        {"kubectl.kubernetes.io/default-container", "kubectl.kubernetes.io/restartedAt"}
    ),
    "Service": frozenset({"service.kubernetes.io/topology-mode"}),
}
"""Annotations that are synced, by kind. Annotations with neither a prefix nor a dot are always
synced. A dotted key without a prefix can configure a container runtime, such as
`io.katacontainers.config.hypervisor.kernel_params`."""

POD_NETWORKS = "k8s.v1.cni.cncf.io/networks"
POD_DEFAULT_NETWORK = "v1.multus-cni.io/default-network"
POD_NETWORK_REQUESTS = (POD_NETWORKS, POD_DEFAULT_NETWORK)
"""Annotations of a pod that Multus reads."""

NETWORK_ANNOTATIONS = frozenset(
    {
        *POD_NETWORK_REQUESTS,
        "k8s.v1.cni.cncf.io/network-status",
        "k8s.v1.cni.cncf.io/networks-status",
        "k8s.v1.cni.cncf.io/policy-for",
        "k8s.v1.cni.cncf.io/resourceName",
    }
)
"""Annotations that name networks of the cluster they are in. They are never synced as they are,
even if a TenantPolicy lists them. `syncer.rules.network.attachments` translates some of them."""

ANNOTATION_BLOCKED_KINDS = frozenset({"Ingress", "Service"})
"""Kinds that are held back by an unknown prefixed annotation. Dropping `...internal: "true"` would
make a private load balancer public. A Service is held back only if its type is exposed."""

EXPOSED_SERVICE_TYPES = frozenset({"LoadBalancer", "NodePort"})
"""Types of Services that clients outside of the cluster reach. For the other types an unknown
annotation is left out."""

IGNORED_ANNOTATIONS = frozenset({LAST_APPLIED})
IGNORED_ANNOTATION_DOMAINS = (
    "meta.helm.sh",
    "helm.sh",
    "prometheus.io",
    "argocd.argoproj.io",
    "argo-rollouts.argoproj.io",
    "kustomize.toolkit.fluxcd.io",
    "helm.toolkit.fluxcd.io",
    "field.cattle.io",
    "endpoints.kubernetes.io",
)
"""Annotations that matter only to their writer. They are left out without holding the object."""

_EXTERNAL_DNS = frozenset(
    {"external-dns.alpha.kubernetes.io/hostname", "external-dns.alpha.kubernetes.io/target"}
)
TRANSPARENT_ANNOTATIONS: Mapping[str, frozenset[str]] = {
    "Service": _EXTERNAL_DNS
    | {
        "cloud.google.com/neg-status",
        "field.cattle.io/publicEndpoints",
        "kubernetes.digitalocean.com/load-balancer-id",
        "loadbalancer.openstack.org/load-balancer-address",
        "loadbalancer.openstack.org/load-balancer-id",
        "metallb.io/ip-allocated-from-pool",
        "metallb.universe.tf/ip-allocated-from-pool",
    },
    "Ingress": _EXTERNAL_DNS
    | {
        "field.cattle.io/publicEndpoints",
        "ingress.kubernetes.io/backends",
        "ingress.kubernetes.io/forwarding-rule",
        "ingress.kubernetes.io/https-forwarding-rule",
        "ingress.kubernetes.io/ssl-cert",
        "ingress.kubernetes.io/target-proxy",
        "ingress.kubernetes.io/url-map",
    },
}
"""Annotations that are synced back to the tenant, by kind, if the tenant did not set them. Platform
webhooks assign the DNS name, and controllers of load balancers write the rest as a status."""

PROTECTED_DOMAINS = frozenset(
    {
        "apps.kubernetes.io",
        "batch.kubernetes.io",
        "controller.kubernetes.io",
        "endpoints.kubernetes.io",
        "endpointslice.kubernetes.io",
        "kubectl.kubernetes.io",
        "kubernetes.io",
        "pod-security.kubernetes.io",
        "pv.kubernetes.io",
        "service.kubernetes.io",
        "statefulset.kubernetes.io",
        "volume.beta.kubernetes.io",
        "volume.kubernetes.io",
    }
)
"""Domains of keys that are never synced back to the tenant. The controllers and the API server of
Kubernetes act on these keys, and those of the tenant must not obey the super cluster."""

PROTECTED_LABELS = frozenset(
    {"controller-revision-hash", "controller-uid", "job-name", "pod-template-hash"}
)
"""Labels without a prefix by which the tenant's controllers find their pods. Never synced back."""

# --- security -------------------------------------------------------------------------------------

CAPABILITIES = frozenset(
    {
        "AUDIT_WRITE",
        "CHOWN",
        "DAC_OVERRIDE",
        "FOWNER",
        "FSETID",
        "KILL",
        "MKNOD",
        "NET_BIND_SERVICE",
        "SETFCAP",
        "SETGID",
        "SETPCAP",
        "SETUID",
        "SYS_CHROOT",
    }
)
"""Capabilities that a container may add. These are the default set of container runtimes."""

SELINUX_TYPES = frozenset(
    {"container_t", "container_init_t", "container_kvm_t", "container_engine_t"}
)

SYSCTLS = frozenset(
    {
        "kernel.shm_rmid_forced",
        "net.ipv4.ip_local_port_range",
        "net.ipv4.ip_local_reserved_ports",
        "net.ipv4.ip_unprivileged_port_start",
        "net.ipv4.ping_group_range",
        "net.ipv4.tcp_fin_timeout",
        "net.ipv4.tcp_keepalive_intvl",
        "net.ipv4.tcp_keepalive_probes",
        "net.ipv4.tcp_keepalive_time",
        "net.ipv4.tcp_rmem",
        "net.ipv4.tcp_syncookies",
        "net.ipv4.tcp_wmem",
    }
)

# --- scheduling -----------------------------------------------------------------------------------

TOLERATED_TAINTS = frozenset(
    {
        "node.kubernetes.io/not-ready",
        "node.kubernetes.io/unreachable",
        "node.kubernetes.io/memory-pressure",
        "node.kubernetes.io/disk-pressure",
        "node.kubernetes.io/pid-pressure",
    }
)
"""Taint keys that a pod may tolerate. Other tolerations are left out, with an Event."""

ADDED_TOLERATIONS = {
    "DaemonSet": frozenset(
        {"node.kubernetes.io/network-unavailable", "node.kubernetes.io/unschedulable"}
    )
}
"""Taint keys that a controller tolerates for all its pods without a request, by the controller's
kind. These tolerations are left out as well, because no tenant pod may start on a node that is
being drained."""

VISIBLE_NODE_LABELS = frozenset(
    {
        "kubernetes.io/arch",
        "kubernetes.io/hostname",
        "kubernetes.io/os",
        "beta.kubernetes.io/arch",
        "beta.kubernetes.io/os",
        "node.kubernetes.io/instance-type",
        "topology.kubernetes.io/region",
        "topology.kubernetes.io/zone",
    }
)
"""Prefixed node labels that tenants see on virtual nodes and may select by."""


BARE_NODE_LABELS = frozenset({"kubernetes.io/arch", "kubernetes.io/hostname", "kubernetes.io/os"})
"""Node labels that DaemonSets, topology spreading and images need."""


def is_visible_node_label(key: str, view: NodeView = "Standard") -> bool:
    """Return whether tenants see a label of super nodes.

    The view Standard shows labels without a prefix and well-known ones.
    """
    match view:
        case "Minimal":
            return key in BARE_NODE_LABELS
        case "Standard":
            return "/" not in key or key in VISIBLE_NODE_LABELS
        case "Full":
            return not wellknown.is_reserved_key(key)


SPREAD_OWNERS = frozenset({"ReplicaSet", "ReplicationController", "StatefulSet"})
"""Controllers whose pods the scheduler spreads by default."""

SPREAD_DEFAULTS = (("kubernetes.io/hostname", 3), ("topology.kubernetes.io/zone", 5))
"""Soft constraints of the default scheduler, as pairs of topology key and maxSkew."""

# --- configuration --------------------------------------------------------------------------------

SECRET_TYPES_KEPT = frozenset(
    {"Opaque", "kubernetes.io/dockerconfigjson", "kubernetes.io/dockercfg", "kubernetes.io/tls"}
)
"""Secret types that are kept. Any other type becomes Opaque."""

SECRET_TYPES_REFUSED = frozenset(
    {"kubernetes.io/service-account-token", "bootstrap.kubernetes.io/token", "helm.sh/release.v1"}
)
"""Secret types that are never synced to the super cluster."""

MAX_AUDIENCE = 4096
"""Maximum length of a token's audience in bytes. The Secret that contains the token records the
audience."""
TOKEN_SECONDS = 7200
"""Lifetime in seconds of the token that all pods of an account share. It is renewed at half."""
MIN_TOKEN_SECONDS = 600
MAX_TOKEN_SECONDS = 7200

EVENTS_PER_SECOND = 10.0
EVENTS_BURST = 100
"""Limits on super cluster Events to one tenant: a rate per second and a burst. Events over a limit
are dropped, never delayed."""
