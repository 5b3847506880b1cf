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
        ("get", "list", "watch", "patch"),
        "Tenants are declared here; patch sets and releases our finalizer.",
    ),
    RbacRule(
        "tenancy.x-k8s.io",
        ("virtualclusters/status",),
        ("patch",),
        "Conditions and addresses are written by server-side apply.",
    ),
    RbacRule(
        "tenancy.x-k8s.io",
        ("clusterversions",),
        ("get", "list", "watch", "patch"),
        "Say which control plane to run; patch guards those in use by a finalizer.",
    ),
    RbacRule(
        "tenancy.x-k8s.io",
        ("tenantpolicies",),
        ("list", "watch"),
        "Node agents are told which calls each tenant's policy lets through.",
    ),
    RbacRule(
        "tenancy.x-k8s.io",
        ("superclusters",),
        ("list", "watch", "create"),
        "Other clusters are declared here; the one named home is made when there is another.",
    ),
    RbacRule(
        "tenancy.x-k8s.io",
        ("superclusters/status",),
        ("patch",),
        "Whether such a cluster could run pods of tenants, and why not.",
    ),
    RbacRule(
        "",
        ("namespaces",),
        ("get", "list", "watch", "create", "patch", "delete"),
        "Root namespaces are ours; super namespaces of a tenant go when it is deleted.",
    ),
    RbacRule(
        "",
        ("secrets",),
        ("get", "list", "watch", "create", "patch", "delete"),
        "Authorities, certificates and kubeconfigs of tenants, in their root namespaces.",
    ),
    RbacRule(
        "",
        ("configmaps",),
        ("get", "list", "watch", "create", "patch", "delete"),
        "Trust bundles and settings of control planes, and the authority that agents trust.",
    ),
    RbacRule(
        "",
        ("services",),
        ("get", "list", "watch", "create", "patch", "delete"),
        "Services of control planes; the one named kubernetes claims the slice of addresses.",
    ),
    RbacRule(
        "apps",
        ("statefulsets", "deployments"),
        ("get", "list", "watch", "create", "patch", "delete"),
        "The control planes themselves.",
    ),
    RbacRule(
        "",
        ("pods",),
        ("get", "list", "watch", "delete"),
        "Why a component is not ready; delete rolls out where the template says OnDelete.",
    ),
    RbacRule(
        "",
        ("persistentvolumeclaims",),
        ("list", "create", "delete"),
        "The volumes of etcd are there before its pods, and go with the tenant.",
    ),
    RbacRule(
        "",
        ("persistentvolumes",),
        ("list",),
        "A deleted tenant is reported gone when its volumes are; retained ones are left alone.",
    ),
    RbacRule(
        "",
        ("events",),
        ("list", "create", "patch"),
        "Says on the VirtualCluster what happened, and finds out why a pod cannot start.",
    ),
    RbacRule(
        "",
        ("nodes",),
        ("list", "watch"),
        "A NodePort is reached at the address of a node; tenants get another when that one goes.",
    ),
    RbacRule(
        "networking.k8s.io",
        ("servicecidrs",),
        ("get",),
        "Tenants get slices of the cluster's own service range.",
        names=("kubernetes",),
    ),
    RbacRule(
        "coordination.k8s.io",
        ("leases",),
        ("get", "create", "update"),
        "One manager works at a time; whether the syncer lives is read from its Lease.",
        namespaced=True,
    ),
    RbacRule(
        "certificates.k8s.io",
        ("certificatesigningrequests",),
        ("get", "list", "watch"),
        "Agents ask for their serving certificate by these.",
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
        "Only for the agents' own signer.",
        names=(wellknown.AGENT_SERVING_SIGNER,),
    ),
)
