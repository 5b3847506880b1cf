"""What a tenant may ask of the super cluster where no field of a TenantPolicy says so: constants.

Pure data, read by the pod table, the translators and the node mirror. Must not know how anything is
written. What a TenantPolicy says is in `tenancy.policies`.
"""

from collections.abc import Mapping

from tenancy import wellknown
from tenancy.policies import NodeView

MAX_GRACE_SECONDS = 600
"""Longest termination grace; longer ones are shortened with an Event."""

MAX_OBJECT_BYTES = 1_400_000
"""Largest tenant object that is looked at; etcd refuses more anyway."""

MAX_READINESS_GATES = 16
MAX_GATE_MESSAGE = 1024

# --- labels and annotations -----------------------------------------------------------------------

KUBERNETES_DOMAINS = ("kubernetes.io", "k8s.io")
"""Domains whose keys make Kubernetes act; only the ones below pass."""

PASSED_DOMAINS = frozenset(
    {
        "app.kubernetes.io",
        "apps.kubernetes.io",
        "batch.kubernetes.io",
        "statefulset.kubernetes.io",
    }
)
"""Label domains of Kubernetes that only describe; selectors use them."""

TRIGGER_DOMAINS = (
    "istio.io",
    "linkerd.io",
    "kuma.io",
    "dapr.io",
    "azure.workload.identity",
    "datadoghq.com",
    "opentelemetry.io",
    "eks.amazonaws.com",
    "iam.amazonaws.com",
    "iam.gke.io",
    "vault.hashicorp.com",
    "consul.hashicorp.com",
)
"""Domains whose labels inject sidecars, grant cloud identities or steer agents of the super."""

TRIGGER_LABELS = frozenset({"aadpodidbinding", "istio-injection"})
"""Unprefixed labels that do the same."""

UNLABELLED_KINDS = frozenset({"ConfigMap", "Secret"})
"""Kinds whose labels stay above, but for domains that a TenantPolicy lists: nothing selects them
below but collectors of the super cluster, which take what they find in any namespace."""

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
"""Never goes down: it repeats the whole object, the dropped parts included."""

PASSED_ANNOTATIONS: Mapping[str, frozenset[str]] = {
    "Pod": frozenset(
        {"kubectl.kubernetes.io/default-container", "kubectl.kubernetes.io/restartedAt"}
    ),
    "Service": frozenset({"service.kubernetes.io/topology-mode"}),
}
"""Prefixed annotations that go down, by kind; unprefixed ones always do."""

HOLDING_KINDS = frozenset({"Ingress", "Service"})
"""Kinds that an unknown prefixed annotation holds back: dropping `...internal: "true"` would make
a private load balancer public."""

HARMLESS_ANNOTATIONS = frozenset({LAST_APPLIED})
HARMLESS_ANNOTATION_DOMAINS = (
    "meta.helm.sh",
    "helm.sh",
    "prometheus.io",
    "argocd.argoproj.io",
    "kustomize.toolkit.fluxcd.io",
    "helm.toolkit.fluxcd.io",
    "field.cattle.io",
    "endpoints.kubernetes.io",
)
"""Annotations that concern whoever wrote them; left out without holding anything."""

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
"""Capabilities that a container may add: the default set of container runtimes."""

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
"""Taint keys a pod may tolerate; other tolerations are left out with an Event."""

ADDED_TOLERATIONS = {
    "DaemonSet": frozenset(
        {"node.kubernetes.io/network-unavailable", "node.kubernetes.io/unschedulable"}
    )
}
"""Taint keys that the pods of a controller tolerate without anybody's asking, by its kind. They are
left out as well: no pod of a tenant starts on a node that is being emptied."""

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
"""What DaemonSets, spreading and images cannot do without."""


def is_visible_node_label(key: str, view: NodeView = "Standard") -> bool:
    """Tell whether tenants see a label of super nodes; usually plain and well-known ones."""
    match view:
        case "Minimal":
            return key in BARE_NODE_LABELS
        case "Standard":
            return "/" not in key or key in VISIBLE_NODE_LABELS
        case "Full":
            return not wellknown.is_reserved(key)


SPREAD_OWNERS = frozenset({"ReplicaSet", "ReplicationController", "StatefulSet"})
"""Controllers whose pods the scheduler spreads by default."""

SPREAD_DEFAULTS = (("kubernetes.io/hostname", 3), ("topology.kubernetes.io/zone", 5))
"""The scheduler's own soft constraints: topology key and maxSkew."""

# --- configuration --------------------------------------------------------------------------------

SECRET_TYPES_KEPT = frozenset(
    {"Opaque", "kubernetes.io/dockerconfigjson", "kubernetes.io/dockercfg", "kubernetes.io/tls"}
)
"""Secret types that stay; any other becomes Opaque."""

SECRET_TYPES_REFUSED = frozenset(
    {"kubernetes.io/service-account-token", "bootstrap.kubernetes.io/token", "helm.sh/release.v1"}
)
"""Secret types that never leave the tenant."""

MAX_AUDIENCE = 4096
"""Longest audience of a token, in bytes: the Secret that carries the token records it."""
TOKEN_SECONDS = 7200
"""Lifetime of the token that all pods of an account share; it is renewed at half."""
MIN_TOKEN_SECONDS = 600
MAX_TOKEN_SECONDS = 7200

EVENTS_PER_SECOND = 10.0
EVENTS_BURST = 100
"""Super Events a tenant receives at most; more are dropped, never delayed."""
