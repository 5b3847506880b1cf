"""Options that the command line sets and the whole manager reads.

Owns their shapes. Pure. Must not know their readers.
"""

from dataclasses import dataclass
from typing import Any

import msgspec

from tenancy.addresses import IPNetwork


class ApiProxySettings(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Settings of the proxy in front of all tenants' APIs, from the chart."""

    base_domain: str = ""
    """Domain of generated host names. Empty: only tenants with a host name in their spec."""
    address: str = ""
    """Host that clients dial for every tenant. Empty: the tenant's host name, by DNS."""
    port: int = 443
    """Port that clients dial."""
    exclusive: bool = True
    """Whether a tenant's API server accepts clients outside of the cluster only by the proxy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorSettings:
    """Settings of the super cluster's operator for all tenants."""

    registry: str
    """Prefix of the control plane images."""
    node_ports: str = "30000-32767"
    """The super cluster's range of node ports. Tenants offer the same range."""
    own_image: str = ""
    """Image of vc-manager, for the Jobs of snapshots. Empty: there are no snapshots."""
    own_image_pull_policy: str = "IfNotPresent"
    priority_class: str = ""
    """PriorityClass of control planes without one of their own. Empty: the cluster's default."""
    network_policies: bool = True
    """Whether root namespaces have NetworkPolicies."""
    cluster_manager: str = ""
    """Name of this installation in ClusterProfiles. Empty: there are no ClusterProfiles."""
    cluster_api: bool = False
    """Whether VirtualClusterControlPlanes are reconciled. Then their kind must be served."""
    scrapers: tuple[dict[str, Any], ...] = ()
    """NetworkPolicy peers that may read the metrics of etcd. Empty: nothing may."""
    api_proxy: ApiProxySettings | None = None
    """None: there is no API proxy."""
    egress: tuple[IPNetwork, ...] = ()
    """Networks that the tenants' API servers may connect to, in addition to public addresses."""


class AgentPodSettings(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Pod settings from the chart. The names are those of a Deployment's fields."""

    image: str
    image_pull_policy: str = "IfNotPresent"
    image_pull_secrets: tuple[dict[str, str], ...] = ()
    instance: str = "virtual-cluster"
    """Name of the release."""
    log_level: str = "INFO"
    secure_metrics: bool = True
    """Whether only accounts with a role for metrics may read them."""
    replicas: int = 1
    priority_class_name: str = ""
    resources: dict[str, Any] = {}
    node_selector: dict[str, str] = {}
    tolerations: tuple[dict[str, Any], ...] = ()
    affinity: dict[str, Any] = {}
    pod_annotations: dict[str, str] = {}
