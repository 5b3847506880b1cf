"""Coordinates of every kind that the components use: group, version, plural, kind, scope."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Resource:
    """Coordinates of one kind in a Kubernetes API."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True

    @property
    def api_version(self) -> str:
        """Return `v1` for the core group, `group/version` for any other."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def version_path(self) -> str:
        """URL path of the group version. Discovery answers there."""
        return f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"

    def build_path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """Return the URL path of the collection, of one object, or of its subresource."""
        scope = f"/namespaces/{namespace}" if self.namespaced and namespace else ""
        tail = f"/{name}" if name else ""
        return f"{self.version_path}{scope}/{self.plural}{tail}" + (
            f"/{subresource}" if subresource else ""
        )


def _core_resource(plural: str, kind: str, *, namespaced: bool = True) -> Resource:
    return Resource("", "v1", plural, kind, namespaced)


VIRTUAL_CLUSTERS = Resource("tenancy.x-k8s.io", "v1alpha1", "virtualclusters", "VirtualCluster")
CLUSTER_VERSIONS = Resource(
    "tenancy.x-k8s.io", "v1alpha1", "clusterversions", "ClusterVersion", namespaced=False
)
TENANT_POLICIES = Resource(
    "tenancy.x-k8s.io", "v1alpha1", "tenantpolicies", "TenantPolicy", namespaced=False
)
SUPER_CLUSTERS = Resource(
    "tenancy.x-k8s.io", "v1alpha1", "superclusters", "SuperCluster", namespaced=False
)
SYNC_RULES = Resource("tenancy.x-k8s.io", "v1alpha1", "syncrules", "SyncRule", namespaced=False)
VIRTUAL_CLUSTER_SNAPSHOTS = Resource(
    "tenancy.x-k8s.io", "v1alpha1", "virtualclustersnapshots", "VirtualClusterSnapshot"
)
VIRTUAL_CLUSTER_CONTROL_PLANES = Resource(
    "controlplane.cluster.x-k8s.io",
    "v1alpha1",
    "virtualclustercontrolplanes",
    "VirtualClusterControlPlane",
)
CLUSTER_PROFILES = Resource(
    "multicluster.x-k8s.io", "v1alpha1", "clusterprofiles", "ClusterProfile"
)

NAMESPACES = _core_resource("namespaces", "Namespace", namespaced=False)
NODES = _core_resource("nodes", "Node", namespaced=False)
PERSISTENT_VOLUMES = _core_resource("persistentvolumes", "PersistentVolume", namespaced=False)
PODS = _core_resource("pods", "Pod")
CONFIG_MAPS = _core_resource("configmaps", "ConfigMap")
SECRETS = _core_resource("secrets", "Secret")
SERVICES = _core_resource("services", "Service")
RESOURCE_QUOTAS = _core_resource("resourcequotas", "ResourceQuota")
LIMIT_RANGES = _core_resource("limitranges", "LimitRange")
SERVICE_ACCOUNTS = _core_resource("serviceaccounts", "ServiceAccount")
EVENTS = _core_resource("events", "Event")
PERSISTENT_VOLUME_CLAIMS = _core_resource("persistentvolumeclaims", "PersistentVolumeClaim")
DEPLOYMENTS = Resource("apps", "v1", "deployments", "Deployment")
STATEFUL_SETS = Resource("apps", "v1", "statefulsets", "StatefulSet")
DAEMON_SETS = Resource("apps", "v1", "daemonsets", "DaemonSet")
JOBS = Resource("batch", "v1", "jobs", "Job")
LEASES = Resource("coordination.k8s.io", "v1", "leases", "Lease")
ENDPOINT_SLICES = Resource("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice")
SERVICE_CIDRS = Resource("networking.k8s.io", "v1", "servicecidrs", "ServiceCIDR", namespaced=False)
IP_ADDRESSES = Resource("networking.k8s.io", "v1", "ipaddresses", "IPAddress", namespaced=False)
NETWORK_POLICIES = Resource("networking.k8s.io", "v1", "networkpolicies", "NetworkPolicy")
INGRESSES = Resource("networking.k8s.io", "v1", "ingresses", "Ingress")
POD_DISRUPTION_BUDGETS = Resource("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget")
CLUSTER_ROLES = Resource(
    "rbac.authorization.k8s.io", "v1", "clusterroles", "ClusterRole", namespaced=False
)
CLUSTER_ROLE_BINDINGS = Resource(
    "rbac.authorization.k8s.io", "v1", "clusterrolebindings", "ClusterRoleBinding", namespaced=False
)
ROLES = Resource("rbac.authorization.k8s.io", "v1", "roles", "Role")
ROLE_BINDINGS = Resource("rbac.authorization.k8s.io", "v1", "rolebindings", "RoleBinding")
CERTIFICATE_SIGNING_REQUESTS = Resource(
    "certificates.k8s.io",
    "v1",
    "certificatesigningrequests",
    "CertificateSigningRequest",
    namespaced=False,
)
CUSTOM_RESOURCE_DEFINITIONS = Resource(
    "apiextensions.k8s.io",
    "v1",
    "customresourcedefinitions",
    "CustomResourceDefinition",
    namespaced=False,
)
VALIDATING_ADMISSION_POLICIES = Resource(
    "admissionregistration.k8s.io",
    "v1",
    "validatingadmissionpolicies",
    "ValidatingAdmissionPolicy",
    namespaced=False,
)
VALIDATING_ADMISSION_POLICY_BINDINGS = Resource(
    "admissionregistration.k8s.io",
    "v1",
    "validatingadmissionpolicybindings",
    "ValidatingAdmissionPolicyBinding",
    namespaced=False,
)
API_SERVICES = Resource(
    "apiregistration.k8s.io", "v1", "apiservices", "APIService", namespaced=False
)
STORAGE_CLASSES = Resource(
    "storage.k8s.io", "v1", "storageclasses", "StorageClass", namespaced=False
)
CSI_DRIVERS = Resource("storage.k8s.io", "v1", "csidrivers", "CSIDriver", namespaced=False)
PRIORITY_CLASSES = Resource(
    "scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", namespaced=False
)
RUNTIME_CLASSES = Resource("node.k8s.io", "v1", "runtimeclasses", "RuntimeClass", namespaced=False)
INGRESS_CLASSES = Resource(
    "networking.k8s.io", "v1", "ingressclasses", "IngressClass", namespaced=False
)
VOLUME_SNAPSHOTS = Resource("snapshot.storage.k8s.io", "v1", "volumesnapshots", "VolumeSnapshot")
VOLUME_SNAPSHOT_CLASSES = Resource(
    "snapshot.storage.k8s.io",
    "v1",
    "volumesnapshotclasses",
    "VolumeSnapshotClass",
    namespaced=False,
)
NETWORK_ATTACHMENTS = Resource(
    "k8s.cni.cncf.io", "v1", "network-attachment-definitions", "NetworkAttachmentDefinition"
)
MULTI_NETWORK_POLICIES = Resource(
    "k8s.cni.cncf.io", "v1beta1", "multi-networkpolicies", "MultiNetworkPolicy"
)
SELF_SUBJECT_ACCESS_REVIEWS = Resource(
    "authorization.k8s.io",
    "v1",
    "selfsubjectaccessreviews",
    "SelfSubjectAccessReview",
    namespaced=False,
)
SELF_SUBJECT_REVIEWS = Resource(
    "authentication.k8s.io", "v1", "selfsubjectreviews", "SelfSubjectReview", namespaced=False
)
SELF_SUBJECT_RULES_REVIEWS = Resource(
    "authorization.k8s.io",
    "v1",
    "selfsubjectrulesreviews",
    "SelfSubjectRulesReview",
    namespaced=False,
)
