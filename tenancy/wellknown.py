"""Labels, annotations, finalizers, field managers and condition types of all components.

Keys of upstream VirtualCluster keep their spelling.
"""

import base64
import hashlib
import re
from datetime import timedelta

DOMAIN = "tenancy.x-k8s.io"

# Labels and annotations of super objects.
CLUSTER = f"{DOMAIN}/cluster"
"""Label and annotation: the root namespace (key) of the tenant that owns the object."""
NAMESPACE = f"{DOMAIN}/namespace"
"""Label and annotation: the tenant namespace of the twin."""
VC_NAME = f"{DOMAIN}/vcname"
"""Label and annotation: name of the VirtualCluster."""
VC_NAMESPACE = f"{DOMAIN}/vcnamespace"
"""Label and annotation: namespace of the VirtualCluster."""
VC_UID = f"{DOMAIN}/vcuid"
"""Label and annotation: UID of the VirtualCluster. With `UID` it proves ownership."""
UID = f"{DOMAIN}/uid"
"""Annotation: UID of the tenant object."""
SUPER_CLUSTER = f"{DOMAIN}/super-cluster"
"""Label and annotation of objects in targets: UID of the SuperCluster.

Two home clusters may share a target. In the home cluster only objects that serve a target have the
label.
"""
ABANDON = f"{DOMAIN}/abandon"
"""Annotation of a SuperCluster that is lost for good. Tenants' objects in it are left behind."""
CONFIRM_LOSSES = f"{DOMAIN}/confirm-losses"
"""Annotation of a SuperCluster: confirmation of its missing pods as lost.

The value is `status.losses.state`. It can also be `status.observedIdentity`, the UID of kube-system
of the cluster that answers now.
"""
TARGET = f"{DOMAIN}/target"
"""Label: name of a target.

The node that stands for the target in a tenant has it, and vc-manager's objects for the target's
agent have it too.
"""
ASSIGNED_CLUSTER = f"{DOMAIN}/assigned-cluster"
"""Annotation of a tenant pod, and of its twin: the assigned cluster of this attempt.

The value is the name of the super cluster, a slash, and 16 hex digits that identify the attempt.
"""
ELECT = f"{DOMAIN}/elect"
"""Label `enabled` of a tenant's namespace, and annotation of its pods.

Such a pod may run in targets that accept only elected pods.
"""
CONTROLLED = f"{DOMAIN}/controlled"
"""Label, `true` on all objects of the syncer or the manager in the super cluster."""
DEFAULT_POLICY_NAME = "baseline"
"""TenantPolicy of a VirtualCluster that names none."""
DEFAULT_CLUSTER_VERSION = f"{DOMAIN}/is-default-cluster-version"
"""Annotation of a ClusterVersion, `true` on the one for virtual clusters that name none."""
ROOT_NAMESPACE = f"{DOMAIN}/vcrootns"
"""Annotation, `true` on a root namespace."""
OWNER = f"{DOMAIN}/ownerReferences"
"""Annotation: kind and UID of the tenant object's controller, JSON, at most 512 bytes."""
LAST_WRITTEN_DIGEST = f"{DOMAIN}/digest"
"""Annotation: digest of the last write. It saves work after a restart and proves nothing."""
CONTAINERS = f"{DOMAIN}/containers"
"""Annotation: comma-separated containers that the tenant wrote. The agent serves only these."""
SYNCED_KEYS = f"{DOMAIN}/keys"
"""Annotation: keys of the tenant's labels and annotations that were synced, JSON.

Other keys of the object are the super cluster's own and stay.
"""
TRANSPARENT_KEYS = f"{DOMAIN}/transparent-keys"
"""Annotation of a tenant object: keys of its labels and annotations that were synced back, JSON.

Each key has a digest of its value. A key whose value differs belongs to the tenant.
"""
LABEL_DOMAIN = f"label.{DOMAIN}"
"""Domain of translated label keys. Super pods have each label that is not synced under its own key
under a translated key, so that selectors still find them."""
LABEL_KEYS = f"{DOMAIN}/label-keys"
"""Annotation of a super pod: the tenant's keys of its translated labels, JSON.

A translated key contains a digest, so the tenant's key cannot be derived from it.
"""
NODE_CHOICE = f"{DOMAIN}/node-choice"
"""Annotation of a super pod: digest of its node choice by the tenant's own marks on nodes."""
EXPIRES = f"{DOMAIN}/expires"
"""Annotation of a token Secret: expiry of the token, RFC 3339."""
ACCOUNT = f"{DOMAIN}/serviceaccount"
"""Annotation of a token Secret: name of the tenant ServiceAccount. Its UID is in `UID`."""
TOKEN_AUDIENCE = f"{DOMAIN}/token-audience"
"""Annotation of a token Secret: the requested audience. Empty for the tenant's own API."""
TOKEN_SECONDS = f"{DOMAIN}/token-seconds"
"""Annotation of a token Secret: the requested lifetime."""
TOKEN_RENEW = f"{DOMAIN}/token-renew"
"""Annotation of a token Secret: time of the next request for a token, RFC 3339."""
TOKEN_POD = f"{DOMAIN}/token-pod"
"""Annotation of a token Secret: name and UID of the one tenant pod it is bound to, if any."""
VOLUME = f"{DOMAIN}/volume"
"""Annotation of the twins of a tenant's own volume and of its claim: the tenant's name of it."""
RECLAIM_POLICY = f"{DOMAIN}/reclaim-policy"
"""Annotation of a shown volume: the reclaim policy that the super volume had at the last write."""
POLICED_INGRESS = f"{DOMAIN}/policed-ingress"
"""Label of a super pod, `true` if a network policy of its tenant selects it for ingress.

The default network policy of its namespace leaves such a pod out.
"""
POLICED_EGRESS = f"{DOMAIN}/policed-egress"
"""The same for egress."""
CONTROLLER = f"{DOMAIN}/controller"
"""Label of a super pod: UID of the tenant pod's controller, for spreading."""
SECRETS_DIGEST = f"{DOMAIN}/secrets-digest"
"""Annotation of a control plane's pod template: digest of the Secrets it mounts."""
SERVICE_CIDR = f"{DOMAIN}/service-cidr"
"""Annotation of the root namespace's Service `kubernetes`: the service range that it claims."""
PKI_INITIALISED = f"{DOMAIN}/pki-initialised"
"""Annotation of a root namespace, `true` once all authorities exist. They are never recreated."""
ENCRYPTION_INITIALISED = f"{DOMAIN}/encryption-initialised"
"""Annotation of a root namespace, `true` once it has encryption keys. They are never recreated."""

# Identity of a tenant's etcd data (design: deletes and delete protection).
STORE_UID = f"{DOMAIN}/store-uid"
"""Annotation of the root namespace: UID of the tenant's kube-system."""
STORE_REVISION = f"{DOMAIN}/store-revision"
"""Annotation of the root namespace: highest resourceVersion seen from the tenant."""
STORE_EPOCH = f"{DOMAIN}/store-epoch"
"""Annotation of the root namespace, and key of the tenant's ConfigMap: the epoch of the sync.

The syncer increases it after objects were synced to the super cluster.
"""
CONFIRM_DELETES = f"{DOMAIN}/confirm-deletes"
"""Annotation of a VirtualCluster: `status.heldStore.uid`.

It is the UID of the tenant's new kube-system, and confirms that its deletes are intended.
"""

SHARED_SOURCE = f"{DOMAIN}/shared-source"
"""Label `enabled` of a namespace: TenantPolicies may give its ConfigMaps and Secrets to tenants."""
SHARED = f"{DOMAIN}/shared"
"""Label `true` of a ConfigMap or Secret in a tenant that its TenantPolicy gives to it."""
POLICY_REQUIRED = f"{DOMAIN}/policy-required"
"""Label `enabled` of a namespace: its VirtualClusters may not have `baseline` without a right.

Their authors need the verb `use` on each TenantPolicy. Without the label, they do not need it for
the policy `baseline` of a new VirtualCluster.
"""
DELETION_PROTECTION = f"{DOMAIN}/deletion-protection"
"""Label of a VirtualCluster, and of a namespace that holds such VirtualClusters: `enabled`.

A policy of the chart refuses the DELETE of both. vc-manager sets the label of the namespace.
"""
DELETE_AFTER = f"{DOMAIN}/delete-after"
"""Annotation of a VirtualCluster that is scheduled for deletion: the time, RFC 3339."""

RESTORE_SNAPSHOT = f"{DOMAIN}/restore-snapshot"
"""Annotation of a VirtualCluster: `NAME@TIME`, the request to restore a VirtualClusterSnapshot.

The syncer disconnects while it is set. vc-manager removes it at the end of the restore.
"""
COMPARE_SNAPSHOT = f"{DOMAIN}/compare-snapshot"
"""Annotation of a VirtualClusterSnapshot: the time of a request to compare it with its tenant."""
UPLOADED_SNAPSHOT = f"{DOMAIN}/uploaded-snapshot"
"""Annotation of an imported VirtualClusterSnapshot: SHA-256 of the file that was uploaded."""
SNAPSHOT_SCHEDULE = f"{DOMAIN}/snapshot-schedule"
"""Label of a VirtualClusterSnapshot of a schedule: the name of its VirtualCluster."""
RESTORING = "Restoring"
"""Reason of the conditions Ready and Synced while a snapshot is restored."""

# Labels and annotations of tenant objects.
VIRTUAL_NODE = f"{DOMAIN}/virtualnode"
"""Label, `true` on virtual nodes."""
TAINTS = f"{DOMAIN}/taints"
"""Annotation of a virtual node: `key:effect` of each synced taint, comma-separated.

Other taints are the tenant's own.
"""
LABELS = f"{DOMAIN}/labels"
"""Annotation of a node that stands for a target: keys of the synced labels, comma-separated.

Other labels are the tenant's own.
"""
CORDONED = f"{DOMAIN}/cordoned"
"""Annotation of the node that stands for a target.

It is `true` while the syncer keeps the node unschedulable, because the target is no longer granted.
"""
MIRRORED = f"{DOMAIN}/mirrored"
"""Label, `true` on mirrors: classes, drivers and volumes of the super cluster in a tenant."""
RESERVED_ADDRESS = f"{DOMAIN}/reserved-address"
"""Label, `true` on IPAddress objects that keep a super Service's IP free in the tenant."""
AGENT_ADDRESS = f"{DOMAIN}/agent"
"""Node address type: IP of the vn-agent pod on the node."""

# Settings of operators.
SUPER_PUBLIC = f"{DOMAIN}/super.public"
"""Label of super classes for tenants, `true`. Policies may select by it."""
EXTERNAL_DOMAIN = f"{DOMAIN}/external-apiserver-domain"
"""Label of a VirtualCluster: extra DNS name in the API server's certificate."""

TARGET_OF = f"{DOMAIN}/target-of"
"""Label of objects that `kubectl vc target join` creates in another cluster.

The value is the UID of the home cluster's kube-system.
"""

KUBECONFIG_SECRETS = f"{DOMAIN}/kubeconfig-secrets"
"""Label of a namespace in which `spec.kubeconfigSecrets` may write: `enabled`.

Also the label of such a Secret: the UID of its VirtualCluster.
"""
CREDENTIAL = f"{DOMAIN}/credential"
"""Label of kubeconfig Secrets in root namespaces: `admin`, `syncer`, `manager`, ..."""
CREDENTIAL_SYNCER = "syncer"
NAMESPACE_NAME = "kubernetes.io/metadata.name"
"""Label with the name of the namespace. Every API server sets it on each namespace."""
COMPONENT = "component-name"
"""Label of control plane pods, as upstream's bundles write it: etcd, apiserver, ..."""
USES_BUCKET = f"{DOMAIN}/uses-bucket"
"""Label of pods of snapshots that connect to an S3 server: `true`. A NetworkPolicy selects it."""

FINALIZER = f"{DOMAIN}/vc-manager"
MANAGER = "vc-manager"
"""Field manager, Lease and account of vc-manager."""
SYNCER = "vc-syncer"
"""Field manager, Lease and account of the syncer."""
SYNCER_KUBECONFIG = f"{CREDENTIAL_SYNCER}-kubeconfig"
"""Secret in a root namespace, and its key, with the syncer's credential for the tenant."""
SYNCER_NAMESPACE_ROLE = "virtual-cluster:vc-syncer-namespace"
"""ClusterRole with the syncer's rights to Secrets. It is bound in each super namespace."""
SYNCER_CREDENTIAL_ROLE = "virtual-cluster:vc-syncer-credential"
"""ClusterRole to read the syncer's kubeconfig of a tenant. It is bound in each root namespace."""
SYNCER_TARGETS_ROLE = "vc-syncer-targets"
"""Role in the manager's namespace to read the Secrets that SuperClusters name."""
SYNCER_RULES_ROLE = "virtual-cluster:vc-syncer-rules"
"""ClusterRole with the syncer's rights to the kinds of SyncRules. In the super cluster it is
aggregated from labelled ClusterRoles. In each tenant vc-manager writes its rules."""
AGGREGATE_TO_SYNCER = f"{DOMAIN}/aggregate-to-syncer"
"""Label of a ClusterRole whose rules the syncer gets, for the kind of a SyncRule."""
SYNC_RULE_FINALIZER = f"{DOMAIN}/sync-rule-copies"
"""Finalizer of a SyncRule whose copies are deleted before it."""
SYNCER_LEVELS_ROLE = "vc-syncer-levels"
"""Role in the manager's namespace: the pod security level of each tenant, for the gate."""
POD_SECURITY_LEVELS = "podsecuritylevels"
"""Resource of `SYNCER_LEVELS_ROLE`. It exists only in RBAC and in the gate."""
AGENT = "vn-agent"
"""Account and DaemonSet of the node agent. Account of a target's agent in that target."""
API_PROXY = "api-proxy"
"""Deployment, Service and account of the proxy in front of all tenants' APIs."""
TARGET_AGENT = "vn-agent-target"
"""Account, in the home cluster, of the agents for the pods of one target each."""

ADMIN_KUBECONFIG = "admin-kubeconfig"
"""Secret in a root namespace, and its key, with the admin kubeconfig of the tenant."""
KUBECONFIG_READER_ROLE = "virtual-cluster-kubeconfigs"
"""ClusterRole of the chart that gets only the Secret `admin-kubeconfig`."""

UPSTREAM_KUBELET = "UpstreamKubelet"
UPSTREAM_API_SERVER = "UpstreamApiServer"
UPSTREAM_CONFIGURED = "UpstreamConfigured"
UPSTREAM_EVENT_REASONS = (UPSTREAM_KUBELET, UPSTREAM_API_SERVER, UPSTREAM_CONFIGURED)
"""Reasons of Events that an agent records on its own pod, about its way to the node's pods.

In this order: directly, through the API server because the kubelet's certificate does not verify,
or through the API server by configuration.
"""
KUBELET_DIRECT = f"{DOMAIN}/KubeletDirect"
"""Condition of a virtual node:

whether its agent calls the kubelet itself, or the reason why not.
"""

API_SERVER_PORT = 6443
"""Port of a tenant's API server in its pods, in the short form."""
AGENT_PORT = 10550
AGENT_SERVING_SIGNER = f"{DOMAIN}/vn-agent-serving"
"""signerName of the CSRs for an agent pod's serving certificate."""
AGENT_CLIENT_TRUST = "vn-agent-trust"
"""ConfigMap in the manager's namespace: `client-ca.crt`, the authorities of agents' callers."""
AGENT_SERVING_TRUST_KEY = "serving-ca.crt"
"""Another key of that ConfigMap: the authority of the agents' serving certificates."""
AGENT_ACCESS = "vn-agent-access"
"""ConfigMap in the manager's namespace: the calls that each tenant's policy lets agents answer."""
ENCRYPTION_SECRET = "encryption-keys"  # noqa: S105 - a name
"""Secret in a root namespace with the keys that encrypt the tenant's Secrets in etcd."""
BOOTSTRAP = f"{DOMAIN}/bootstrap"
"""Label, `true` on the objects that every tenant contains from the first minute."""
CERTIFICATES = "vc-certificates"
"""ConfigMap with the table of a tenant's certificates.

It is in the tenant's namespace kube-public, and in the root namespace.
"""
CERTIFICATES_NAMESPACE = "kube-public"
"""The namespace of that ConfigMap in the tenant. Every user of a tenant may read it."""
CERTIFICATES_KEY = "certificates.json"
"""Its key: a JSON list of objects with name, kind, issued, expires and renewal."""
RENEW_CERTIFICATES = f"{DOMAIN}/renew-certificates"
"""Annotation of that ConfigMap, and of a VirtualCluster: an RFC 3339 time.

Certificates that were issued earlier are renewed.
"""
ROTATIONS_KEY = "rotations.json"
"""Another key of that ConfigMap: a JSON list of objects with authority, stage and until."""
TENANT_AUTHORITIES = ("serving", "client", "etcd", "front-proxy", "service-account")
"""Authorities of one tenant that can be rotated. The last one is a pair of keys."""
AGENT_CLIENT_AUTHORITY = "agent-client"
"""The authority of all tenants' certificates for agents."""
AGENT_CLIENT_AUTHORITY_SECRET = "vn-agent-client-ca"  # noqa: S105 - a name
"""Its Secret, in the manager's namespace. Annotations of the Secret request a rotation."""
AGENT_SERVING_AUTHORITY = "agent-serving"
"""The authority of the agents' serving certificates. It is replaced only after its end."""
AGENT_SERVING_AUTHORITY_SECRET = "vn-agent-serving-ca"  # noqa: S105 - a name
SHARED_AUTHORITIES = {
    AGENT_CLIENT_AUTHORITY: AGENT_CLIENT_AUTHORITY_SECRET,
    AGENT_SERVING_AUTHORITY: AGENT_SERVING_AUTHORITY_SECRET,
}
"""Authorities that belong to no tenant, and their Secrets in the manager's namespace."""
ROTATE_PREFIX = f"rotate.{DOMAIN}/"
"""Prefix of annotations of a VirtualCluster. The rest is an authority, the value an RFC 3339 time.

A rotation of that authority starts, if the last one was requested earlier.
"""
FORCE_DROP_PREFIX = f"force-drop.{DOMAIN}/"
"""As `ROTATE_PREFIX`: the old authority is dropped although clients may still use it."""
AUTHORITY_ROTATION = f"{DOMAIN}/authority-rotation"
"""Annotation of the Secret of an authority: JSON with stage, settled and requested."""
MIN_RENEWAL_AGE = timedelta(minutes=10)
"""Age at which a requested renewal of a certificate begins. For a younger one the request waits.

A renewal restarts the controller manager, CoreDNS and the metrics-server. A tenant can request
renewals as fast as a script.
"""
REPLACED_KUBECONFIG_ENDS = f"{DOMAIN}/replaced-kubeconfig-ends"
"""Annotation of the Secret of the admin kubeconfig: RFC 3339 times, with commas between.

At each of them a certificate ends that the Secret had before. A file of that time is still in use.
"""
KUBECONFIG_END_WARNING = timedelta(days=14)
"""Time before the end of a replaced kubeconfig at which the tenant gets Events."""
KUBECONFIG_ROLE = f"{DOMAIN}/kubeconfig-role"
"""Label of a ClusterRoleBinding in a tenant: the role of one kubeconfig. Deleting it revokes."""
KUBECONFIG_USER_PREFIX = "vc-kubeconfig:"
"""Beginning of the user name in a kubeconfig with a role."""
ADMINS_GROUP = "tenancy:admins"
"""Group of issued admin certificates, bound to cluster-admin inside the tenant."""
SYNCER_USER = "tenancy:syncer"
"""User of the syncer's certificate inside a tenant."""
DNS_USER = "tenancy:coredns"
"""User of the managed CoreDNS inside a tenant."""
METRICS_USER = "tenancy:metrics-server"
"""User of the managed metrics-server inside a tenant."""

# Conditions of a VirtualCluster.
READY = "Ready"
"""Whether the API server answers and all components are ready."""
RECONCILING = "Reconciling"
"""True while the manager works toward the spec. kstatus reads it."""
STALLED = "Stalled"
"""True when only a change of the object, or of objects it names, can help. kstatus reads it."""
CERTIFICATES_READY = "CertificatesReady"
"""Whether all certificates and keys exist and are valid."""
ETCD_READY = "EtcdReady"
"""Whether the pods of etcd are ready."""
API_SERVER_READY = "APIServerReady"
"""Whether the pods of the API server are ready."""
CONTROLLER_MANAGER_READY = "ControllerManagerReady"
"""Whether the pod of the controller manager is ready."""
DNS_READY = "DNSReady"
"""Whether names resolve in the tenant. A tenant is ready without it."""
METRICS_READY = "MetricsReady"
"""Whether `kubectl top` and autoscalers have their metrics API. A tenant is ready without it."""
STORE_EPHEMERAL = "StoreEphemeral"
"""True when the etcd template has no volume. Then the loss of a pod is the loss of the tenant."""
NETWORK_POLICIES_ENFORCED = "NetworkPoliciesEnforced"
"""Whether the super cluster enforces NetworkPolicies, by a probe of etcd. Without it, tenants' pods
reach each other. It does not notice a plugin that leaves out pods without an owner."""
CONTROL_PLANE_UP_TO_DATE = "ControlPlaneUpToDate"
"""Whether the control plane runs as its ClusterVersion and vc-manager describe it. False while its
change waits for a slot or is rolled out. A tenant is ready meanwhile."""
WAITING_FOR_ROLLOUT = "WaitingForRollout"
"""Reason of ControlPlaneUpToDate: the tenant waits for a slot of its ClusterVersion."""
ROLLED_OUT = "RolledOut"
"""Condition of a ClusterVersion: whether all tenants that use it are up to date."""
STORE_FILLING = "StoreFilling"
"""True when the data in etcd uses most of its limit. At the limit, etcd refuses writes."""
ETCD_MEMBERS_READY = "EtcdMembersReady"
"""Whether etcd has the desired members, and all of them answer vc-manager."""
PAUSED = "Paused"
"""Whether `spec.pausedUntil` keeps vc-manager from changing the control plane."""
EXPIRING = "Expiring"
"""True in the last 24 h before `spec.expiresAt`, and after it while the deletion is held."""
AUTHENTICATION_READY = "AuthenticationReady"
"""Whether the tenant's API server uses `spec.auth`. Absent without `spec.auth`."""
HOSTNAME_ACCEPTED = "HostnameAccepted"
"""Whether the API proxy serves the tenant's API under its host name. Absent without the proxy."""
KUBECONFIG_SECRETS_READY = "KubeconfigSecretsReady"
"""Whether the Secrets of `spec.kubeconfigSecrets` exist. Absent without that field."""
DNS_CONFIG_ACCEPTED = "DNSConfigAccepted"
"""Whether the tenant's DNS uses every server of `spec.dnsConfig`. Absent without that field."""
SHARED_OBJECTS_READY = "SharedObjectsReady"
"""Whether the tenant has every object of `sharedObjects` of its policy. Absent without any."""
ADDONS_APPLIED = "AddonsApplied"
"""Whether the manifests of `spec.addons` were applied. Absent without that field."""
SYNCED = "Synced"
"""Written by the syncer: the tenant is syncing, and all caches are complete."""
NETWORK_READY = "NetworkReady"
"""Condition of a VirtualCluster with `spec.network`: whether its pods can be on that network."""
TARGETS_GRANTED = "TargetsGranted"
"""Condition of a VirtualCluster that names super clusters: whether each of them is declared."""
ASLEEP = "Asleep"
"""Reason of Ready and of Synced while a tenant is asleep (`spec.sleep`)."""
DELETES_HELD = "DeletesHeld"
"""Written by the syncer: etcd is lost or restored to an older state, and downward deletes wait."""

TERMINAL_PHASES = frozenset({"Succeeded", "Failed"})
"""Phases of a pod that has ended. Its containers do not run again."""

# Reasons of conditions of components. A person must change something, in this cluster or elsewhere.
IMAGE_NOT_FOUND = "ImageNotFound"
INVALID_IMAGE_NAME = "InvalidImageName"
IMAGE_NEVER_PULLED = "ErrImageNeverPull"
NO_STORAGE_CLASS = "NoStorageClass"
STORAGE_CLASS_NOT_FOUND = "StorageClassNotFound"
QUOTA_EXCEEDED = "QuotaExceeded"
POD_SECURITY_VIOLATED = "PodSecurityViolated"
PERMANENT_REASONS = frozenset(
    {
        IMAGE_NOT_FOUND,
        INVALID_IMAGE_NAME,
        IMAGE_NEVER_PULLED,
        NO_STORAGE_CLASS,
        STORAGE_CLASS_NOT_FOUND,
        QUOTA_EXCEEDED,
        POD_SECURITY_VIOLATED,
    }
)
"""Reasons after which waiting does not help. `kubectl vc create` reads them."""

RESERVED_DOMAINS = (DOMAIN, f"transparency.{DOMAIN}")
"""Domains of label and annotation keys that a tenant can never set on a super object."""


def get_key_domain(key: str) -> str:
    """Return the domain of a label or annotation key. Empty when it has no prefix."""
    return key.rpartition("/")[0]


_READABLE_LENGTH = 36  # the name of a key has at most 63 characters, and the digest has 26
_INVALID_IN_NAME = re.compile(r"[^A-Za-z0-9._-]")


def translate_label_key(key: str) -> str:
    """Return the key of a label on super pods if the label is not synced under its own key.

    The name starts with the readable part of the tenant's name. 128 bits of the digest of the whole
    key follow, so that two keys never become one. The domain is reserved. Therefore no component of
    the super cluster acts on the key, and a tenant cannot set it itself.
    """
    digest = base64.b32encode(hashlib.sha256(key.encode()).digest()[:16]).decode()
    name = _INVALID_IN_NAME.sub("", key.rpartition("/")[2])[:_READABLE_LENGTH].strip("._-")
    return f"{LABEL_DOMAIN}/{name}{'-' if name else ''}{digest.rstrip('=').lower()}"


def is_reserved_key(key: str) -> bool:
    """Return whether a key is reserved. Domains are compared whole, label by label."""
    domain = get_key_domain(key).lower()
    return any(domain == ours or domain.endswith(f".{ours}") for ours in RESERVED_DOMAINS)
