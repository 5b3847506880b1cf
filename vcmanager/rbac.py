"""Permissions of vc-manager in the super cluster, each with its reason.

The chart's RBAC is generated from this table. Owns the table. Must not know how RBAC is written.
Hazard: a verb that the code uses must be listed here, otherwise a user's cluster answers 403. A
listed verb that the code never uses is a security hole.
"""

from tenancy import wellknown
from tenancy.rbac import RbacRule

RBAC_RULES: tuple[RbacRule, ...] = (
    RbacRule(
        "tenancy.x-k8s.io",
        ("virtualclusters",),
        ("get", "list", "watch", "patch", "delete"),
        "Reads tenants, sets and removes its finalizer on them (patch), and deletes a tenant after"
        " its grace period.",
    ),
    RbacRule(
        "tenancy.x-k8s.io",
        ("virtualclusters/status",),
        ("patch",),
        "Writes conditions and addresses by server-side apply.",
    ),
    RbacRule(
        "tenancy.x-k8s.io",
        ("virtualclustersnapshots",),
        ("get", "list", "watch", "create", "patch", "delete"),
        "Reads snapshots, keeps its finalizer on them (patch), and creates and deletes those of"
        " schedules.",
    ),
    RbacRule(
        "tenancy.x-k8s.io",
        ("virtualclustersnapshots/status",),
        ("patch",),
        "Writes the manifest and the conditions of snapshots.",
    ),
    RbacRule(
        "tenancy.x-k8s.io",
        ("clusterversions",),
        ("get", "list", "watch", "patch"),
        "Reads which control plane to run, and protects versions in use by a finalizer (patch).",
    ),
    RbacRule(
        "tenancy.x-k8s.io",
        ("clusterversions/status",),
        ("patch",),
        "Marks which tenants of a version change now, and reports the state of the rollout.",
    ),
    RbacRule(
        "tenancy.x-k8s.io",
        ("tenantpolicies",),
        ("get", "list", "watch"),
        "Reads which calls, DNS servers, networks and shared objects each tenant's policy allows.",
    ),
    RbacRule(
        "tenancy.x-k8s.io",
        ("syncrules",),
        ("list", "watch", "patch"),
        "Reads SyncRules, and sets the finalizer of those whose copies are deleted (patch).",
    ),
    RbacRule(
        "tenancy.x-k8s.io",
        ("syncrules/status",),
        ("patch",),
        "Writes whether a SyncRule is usable, and why not.",
    ),
    RbacRule(
        "apiextensions.k8s.io",
        ("customresourcedefinitions",),
        ("get",),
        "Reads the definition of a ruled kind, which tenants get a copy of.",
    ),
    RbacRule(
        "rbac.authorization.k8s.io",
        ("clusterroles",),
        ("get",),
        "Reads whether the syncer has the rights that a SyncRule needs.",
        names=(wellknown.SYNCER_RULES_ROLE,),
    ),
    RbacRule(
        "tenancy.x-k8s.io",
        ("superclusters",),
        ("list", "watch", "create"),
        "Reads target clusters, and creates the one named home with the first target.",
    ),
    RbacRule(
        "tenancy.x-k8s.io",
        ("superclusters/status",),
        ("patch",),
        "Writes whether a target can run pods of tenants, and why not.",
    ),
    RbacRule(
        "",
        ("namespaces",),
        ("get", "list", "watch", "create", "patch", "delete"),
        "Creates root namespaces, and deletes them and super namespaces with their tenant.",
    ),
    RbacRule(
        "",
        ("secrets",),
        ("get", "list", "watch", "create", "patch", "delete"),
        "Keeps CAs, certificates and kubeconfigs of tenants in their root namespaces, and the"
        " kubeconfigs that spec.kubeconfigSecrets asks for. Reads the Secrets that policies share.",
    ),
    RbacRule(
        "",
        ("configmaps",),
        ("get", "list", "watch", "create", "patch", "delete"),
        "Keeps trust bundles and settings of control planes, and the CA that agents trust. Reads"
        " the manifests of spec.addons, and the ConfigMaps that policies share.",
    ),
    RbacRule(
        "",
        ("services",),
        ("get", "list", "watch", "create", "patch", "delete"),
        "Creates Services of control planes. The one named kubernetes reserves the service range.",
    ),
    RbacRule(
        "rbac.authorization.k8s.io",
        ("roles",),
        ("get", "patch"),
        "Keeps the levels of tenants, and the list of Secrets of targets that the syncer reads.",
        names=(wellknown.SYNCER_TARGETS_ROLE, wellknown.SYNCER_LEVELS_ROLE),
        namespaced=True,
    ),
    RbacRule(
        wellknown.DOMAIN,
        (wellknown.POD_SECURITY_LEVELS,),
        ("run", "run-privileged", "label-restricted", "label-baseline", "label-privileged"),
        "Grants each tenant's pod security level to the syncer. RBAC lets no account grant more"
        " than it has.",
        namespaced=True,
    ),
    RbacRule(
        "apps",
        ("statefulsets", "deployments"),
        ("get", "list", "watch", "create", "patch", "delete"),
        "Creates the control planes.",
    ),
    RbacRule(
        "",
        ("pods",),
        ("get", "list", "watch", "delete"),
        "Reads why a component is not ready, and restarts pods with the strategy OnDelete"
        " (delete).",
    ),
    RbacRule(
        "batch",
        ("jobs",),
        ("get", "create", "delete"),
        "Runs the Jobs that save, check, restore and delete snapshots in root namespaces.",
    ),
    RbacRule(
        "",
        ("persistentvolumeclaims",),
        ("list", "create", "delete"),
        "Creates the volumes of etcd before its pods, and deletes them with the tenant.",
    ),
    RbacRule(
        "",
        ("persistentvolumes",),
        ("list",),
        "Waits until the volumes of a deleted tenant are deleted. Retained volumes stay.",
    ),
    RbacRule(
        "rbac.authorization.k8s.io",
        ("rolebindings",),
        ("get", "list", "create", "patch", "delete"),
        "Lets the syncer and the users in spec.kubeconfigReaders get one Secret of a root"
        " namespace.",
    ),
    RbacRule(
        "rbac.authorization.k8s.io",
        ("clusterroles",),
        ("bind",),
        "Binds the two roles that each get one Secret.",
        names=(wellknown.KUBECONFIG_READER_ROLE, wellknown.SYNCER_CREDENTIAL_ROLE),
    ),
    RbacRule(
        "",
        ("events",),
        ("list", "create", "patch"),
        "Posts Events on the VirtualCluster, and reads why a pod cannot start.",
    ),
    RbacRule(
        "",
        ("nodes",),
        ("list", "watch"),
        "Reads the node address for a NodePort, and changes it when that node is deleted.",
    ),
    RbacRule(
        "networking.k8s.io",
        ("servicecidrs",),
        ("get",),
        "Assigns each tenant a part of the cluster's Service CIDR.",
        names=("kubernetes",),
    ),
    RbacRule(
        "networking.k8s.io",
        ("networkpolicies",),
        ("list", "watch", "create", "patch", "delete"),
        "Separates control planes from the pods of other tenants.",
    ),
    RbacRule(
        "policy",
        ("poddisruptionbudgets",),
        ("list", "create", "patch", "delete"),
        "Lets a drain evict one replica of etcd and of the API server at a time.",
    ),
    RbacRule(
        "coordination.k8s.io",
        ("leases",),
        ("get", "create", "update"),
        "Elects the leader, and reads from the syncer's Lease whether the syncer runs.",
        namespaced=True,
    ),
    RbacRule(
        "certificates.k8s.io",
        ("certificatesigningrequests",),
        ("get", "list", "watch"),
        "Reads requests of agents for their serving certificates.",
    ),
    RbacRule(
        "certificates.k8s.io",
        ("certificatesigningrequests/approval", "certificatesigningrequests/status"),
        ("update",),
        "Approves or denies with a reason, and writes the certificate.",
    ),
    RbacRule(
        "certificates.k8s.io",
        ("signers",),
        ("approve", "sign"),
        "Signs only for the agents' own signer.",
        names=(wellknown.AGENT_SERVING_SIGNER,),
    ),
    RbacRule(
        "multicluster.x-k8s.io",
        ("clusterprofiles",),
        ("get", "create", "patch", "delete"),
        "Keeps a ClusterProfile beside each VirtualCluster.",
        enabled_by=("integrations.clusterProfiles.enabled", ("true",)),
    ),
    RbacRule(
        "multicluster.x-k8s.io",
        ("clusterprofiles/status",),
        ("patch",),
        "Writes version, health and address of the tenant.",
        enabled_by=("integrations.clusterProfiles.enabled", ("true",)),
    ),
    RbacRule(
        "controlplane.cluster.x-k8s.io",
        ("virtualclustercontrolplanes",),
        ("get", "list", "watch", "patch"),
        "Reads control planes of Cluster API, and writes their finalizer and endpoint (patch).",
        enabled_by=("integrations.clusterAPI.enabled", ("true",)),
    ),
    RbacRule(
        "controlplane.cluster.x-k8s.io",
        ("virtualclustercontrolplanes/status",),
        ("patch",),
        "Writes the status that Cluster API reads.",
        enabled_by=("integrations.clusterAPI.enabled", ("true",)),
    ),
    RbacRule(
        "cluster.x-k8s.io",
        ("clusters",),
        ("get",),
        "Reads whether the Cluster of a control plane is paused.",
        enabled_by=("integrations.clusterAPI.enabled", ("true",)),
    ),
    RbacRule(
        "tenancy.x-k8s.io",
        ("virtualclusters",),
        ("create",),
        "Creates the VirtualCluster of a control plane of Cluster API.",
        enabled_by=("integrations.clusterAPI.enabled", ("true",)),
    ),
    RbacRule(
        "tenancy.x-k8s.io",
        ("clusterversions", "tenantpolicies"),
        ("use",),
        "Names them in these VirtualClusters. The user of the control plane was checked before.",
        enabled_by=("integrations.clusterAPI.enabled", ("true",)),
    ),
)

API_PROXY_RBAC_RULES: tuple[RbacRule, ...] = (
    RbacRule(
        "tenancy.x-k8s.io",
        ("virtualclusters",),
        ("get", "list", "watch"),
        "Reads the host name of each tenant, and the address of its API server's Service.",
    ),
)
