"""Every label, annotation, finalizer, field manager and condition type of the product.

Keys that upstream VirtualCluster wrote keep their spelling.
"""

DOMAIN = "tenancy.x-k8s.io"

# Labels and annotations of super objects.
CLUSTER = f"{DOMAIN}/cluster"
"""Label and annotation: the root namespace (key) of the tenant an object belongs to."""
NAMESPACE = f"{DOMAIN}/namespace"
"""Label and annotation: the tenant namespace of the twin."""
VC_NAME = f"{DOMAIN}/vcname"
"""Label and annotation: name of the VirtualCluster."""
VC_NAMESPACE = f"{DOMAIN}/vcnamespace"
"""Label and annotation: namespace of the VirtualCluster."""
VC_UID = f"{DOMAIN}/vcuid"
"""Label and annotation: UID of the VirtualCluster; with `UID` it proves ownership."""
UID = f"{DOMAIN}/uid"
"""Annotation: UID of the tenant object."""
SUPER_CLUSTER = f"{DOMAIN}/super-cluster"
"""Label and annotation of what is made in another super cluster than the home cluster: UID of the
SuperCluster, as two homes may share a target. At home only what serves a target has the label."""
ABANDON = f"{DOMAIN}/abandon"
"""Annotation of a SuperCluster that is gone for good: what tenants have there is left there."""
CONFIRM_LOSSES = f"{DOMAIN}/confirm-losses"
"""Annotation of a SuperCluster: which missing pods are confirmed as lost, by `status.losses.state`;
or `status.observedIdentity`, the UID of kube-system of the cluster that answers now."""
TARGET = f"{DOMAIN}/target"
"""Label of the node that stands for another super cluster in a tenant, and of what vc-manager makes
for its agent: its name."""
ASSIGNED_CLUSTER = f"{DOMAIN}/assigned-cluster"
"""Annotation of a tenant pod, and of its twin: the super cluster that it was placed in, a slash,
and 16 hex digits that tell this try apart."""
ELECT = f"{DOMAIN}/elect"
"""Label `enabled` of a tenant's namespace, and annotation of its pods: such a pod may go where only
the elected may."""
CONTROLLED = f"{DOMAIN}/controlled"
"""Label, `true` on everything the syncer or the manager made in the super cluster."""
ROOT_NAMESPACE = f"{DOMAIN}/vcrootns"
"""Annotation, `true` on a root namespace."""
OWNER = f"{DOMAIN}/ownerReferences"
"""Annotation: kind and UID of the tenant object's controller, JSON, at most 512 bytes."""
DIGEST = f"{DOMAIN}/digest"
"""Annotation: digest of what was last written; saves work after a restart, proves nothing."""
CONTAINERS = f"{DOMAIN}/containers"
"""Annotation: comma-separated containers that the tenant wrote; the agent serves no others."""
KEYS = f"{DOMAIN}/keys"
"""Annotation: keys of the tenant's labels and annotations that were carried down, JSON; what stands
beside them is the super cluster's own and stays."""
NODE_CHOICE = f"{DOMAIN}/node-choice"
"""Annotation of a super pod: digest of the nodes that its tenant's own say on them leaves it."""
EXPIRES = f"{DOMAIN}/expires"
"""Annotation of a token Secret: when the token ends, RFC 3339."""
ACCOUNT = f"{DOMAIN}/serviceaccount"
"""Annotation of a token Secret: name of the tenant ServiceAccount; its UID is in `UID`."""
TOKEN_AUDIENCE = f"{DOMAIN}/token-audience"
"""Annotation of a token Secret: the audience asked for; empty for the tenant's own API."""
TOKEN_SECONDS = f"{DOMAIN}/token-seconds"
"""Annotation of a token Secret: the lifetime asked for."""
TOKEN_RENEW = f"{DOMAIN}/token-renew"
"""Annotation of a token Secret: when the next one is asked for, RFC 3339."""
TOKEN_POD = f"{DOMAIN}/token-pod"
"""Annotation of a token Secret: name and UID of the one tenant pod it is bound to, if any."""
VOLUME = f"{DOMAIN}/volume"
"""Annotation of the twins of a tenant's own volume and of its claim: the tenant's name of it."""
CONTROLLER = f"{DOMAIN}/controller"
"""Label of a super pod: UID of the tenant pod's controller, for spreading."""
SECRETS_DIGEST = f"{DOMAIN}/secrets-digest"
"""Annotation of a control plane's pod template: digest of the Secrets it mounts."""
SERVICE_CIDR = f"{DOMAIN}/service-cidr"
"""Annotation of the root namespace's Service `kubernetes`: the slice that it claims."""
PKI_INITIALISED = f"{DOMAIN}/pki-initialised"
"""Annotation of a root namespace, `true` once all authorities exist: never make one anew."""

# Identity of a tenant store (design: deletes and the brake).
STORE_UID = f"{DOMAIN}/store-uid"
"""Annotation of the root namespace: UID of the tenant's kube-system."""
STORE_REVISION = f"{DOMAIN}/store-revision"
"""Annotation of the root namespace: highest resourceVersion seen from the tenant."""
STORE_EPOCH = f"{DOMAIN}/store-epoch"
"""Annotation of the root namespace, and key of the tenant's ConfigMap: counts what went down."""
CONFIRM_DELETES = f"{DOMAIN}/confirm-deletes"
"""Annotation of a VirtualCluster: `status.heldStore.uid`, the UID of the tenant's new kube-system
whose deletes are meant."""

# Marks on tenant objects.
VIRTUAL_NODE = f"{DOMAIN}/virtualnode"
"""Label, `true` on the nodes we show in a tenant."""
TAINTS = f"{DOMAIN}/taints"
"""Annotation of a virtual node: `key:effect` of each taint that we show, comma-separated; the
others are the tenant's own."""
LABELS = f"{DOMAIN}/labels"
"""Annotation of a node that stands for a target: keys of the labels that we show, comma-separated;
the others are the tenant's own."""
CORDONED = f"{DOMAIN}/cordoned"
"""Annotation of the node that stands for a target: `true` while we keep it unschedulable, as the
target is granted no more."""
MIRRORED = f"{DOMAIN}/mirrored"
"""Label, `true` on classes, drivers and volumes of the super cluster that we show in a tenant."""
RESERVED_ADDRESS = f"{DOMAIN}/reserved-address"
"""Label, `true` on IPAddress objects that keep a super Service's IP free in the tenant."""
AGENT_ADDRESS = f"{DOMAIN}/agent"
"""Node address type: IP of the vn-agent pod on the node."""

# What operators set.
SUPER_PUBLIC = f"{DOMAIN}/super.public"
"""Label of super classes that are meant for tenants, `true`; policies may select by it."""
EXTERNAL_DOMAIN = f"{DOMAIN}/external-apiserver-domain"
"""Label of a VirtualCluster: extra DNS name in the API server's certificate."""

TARGET_OF = f"{DOMAIN}/target-of"
"""Label of what `kubectl vc target join` makes in another cluster: UID of the home cluster's
kube-system."""

CREDENTIAL = f"{DOMAIN}/credential"
"""Label of kubeconfig Secrets in root namespaces: `admin`, `syncer`, `manager`, ..."""
CREDENTIAL_SYNCER = "syncer"
COMPONENT = "component-name"
"""Label of control plane pods, as upstream's bundles write it: etcd, apiserver, ..."""

FINALIZER = f"{DOMAIN}/vc-manager"
MANAGER = "vc-manager"
"""Field manager, Lease and account of vc-manager."""
SYNCER = "vc-syncer"
"""Field manager, Lease and account of the syncer."""
AGENT = "vn-agent"
"""Account and DaemonSet of the node agent; account of a target's agent in that target."""
TARGET_AGENT = "vn-agent-target"
"""Account, in the home cluster, of the agents that serve the pods of a target each."""

AGENT_STRAIGHT = "UpstreamKubelet"
AGENT_AROUND = "UpstreamApiServer"
AGENT_CONFIGURED = "UpstreamConfigured"
AGENT_WAYS = (AGENT_STRAIGHT, AGENT_AROUND, AGENT_CONFIGURED)
"""Reasons of the Events by which an agent tells, on its own pod, how it reaches its node's pods:
straight; by the API server, as the kubelet's certificate does not verify; so by configuration."""
KUBELET_DIRECT = f"{DOMAIN}/KubeletDirect"
"""Condition of a virtual node: whether its agent asks the kubelet itself, and if not, why."""

AGENT_PORT = 10550
AGENT_SERVING_SIGNER = f"{DOMAIN}/vn-agent-serving"
"""signerName of the CSRs by which an agent pod asks for its serving certificate."""
AGENT_CLIENT_TRUST = "vn-agent-trust"
"""ConfigMap in the manager's namespace: `client-ca.crt`, who may call agents."""
AGENT_ACCESS = "vn-agent-access"
"""ConfigMap in the manager's namespace: which calls each tenant's policy lets agents answer."""
BOOTSTRAP = f"{DOMAIN}/bootstrap"
"""Label, `true` on the objects that every tenant has inside from the first minute."""
ADMINS_GROUP = "tenancy:admins"
"""Group of handed-out admin certificates, bound to cluster-admin inside the tenant."""
SYNCER_USER = "tenancy:syncer"
"""User of the syncer's certificate inside a tenant."""
DNS_USER = "tenancy:coredns"
"""User of the managed CoreDNS inside a tenant."""
METRICS_USER = "tenancy:metrics-server"
"""User of the managed metrics-server inside a tenant."""

# Conditions of a VirtualCluster.
READY = "Ready"
RECONCILING = "Reconciling"
"""True while the manager works toward the spec; kstatus reads it."""
STALLED = "Stalled"
"""True when only a change of the object, or of what it names, can help; kstatus reads it."""
CERTIFICATES_READY = "CertificatesReady"
ETCD_READY = "EtcdReady"
API_SERVER_READY = "APIServerReady"
CONTROLLER_MANAGER_READY = "ControllerManagerReady"
DNS_READY = "DNSReady"
METRICS_READY = "MetricsReady"
"""Whether `kubectl top` and autoscalers have the API that they ask; a tenant is ready without."""
STORE_EPHEMERAL = "StoreEphemeral"
"""True when the etcd template has no volume: a lost pod is a lost tenant."""
SYNCED = "Synced"
"""Written by the syncer: engaged and all caches complete."""
TARGETS_GRANTED = "TargetsGranted"
"""Condition of a VirtualCluster that names super clusters: whether each of them is declared."""
DELETES_HELD = "DeletesHeld"
"""Written by the syncer: the tenant's store went back or was lost; downward deletes wait."""

RESERVED_DOMAINS = (DOMAIN, f"transparency.{DOMAIN}")
"""Domains of label and annotation keys that a tenant can never set on a super object."""


def key_domain(key: str) -> str:
    """Return the domain of a label or annotation key; empty when it has no prefix."""
    return key.rpartition("/")[0]


def is_reserved(key: str) -> bool:
    """Tell whether a key is ours: domains are compared whole, label by label."""
    domain = key_domain(key).lower()
    return any(domain == ours or domain.endswith(f".{ours}") for ours in RESERVED_DOMAINS)
