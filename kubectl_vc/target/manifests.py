"""Objects of a join: an account in the target, a Secret and a SuperCluster here. Pure.

Owns names and labels of these objects. Hazard: every object in the target must bear the home
cluster's identity, and only such objects are removed. Otherwise two home clusters that share a
target would overwrite each other's account.
"""

import base64
import ipaddress
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import yaml

from clusterversions import catalog
from kubectl_vc.output.cli_errors import CliError
from kubeio import Object
from kubeio.api.yaml_writer import to_yaml
from kubeio.config import secret_kubeconfig
from tenancy import names, wellknown
from tenancy.resources import (
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    NAMESPACES,
    ROLE_BINDINGS,
    ROLES,
    SERVICE_ACCOUNTS,
    SUPER_CLUSTERS,
    VALIDATING_ADMISSION_POLICIES,
    VALIDATING_ADMISSION_POLICY_BINDINGS,
    Resource,
)
from tenancy.super_clusters import (
    HOME,
    AccessMode,
    TaintEffect,
    build_accounts_namespace,
    build_namespace_role,
)

SYNCER_ACCOUNT = wellknown.SYNCER
AGENT_ACCOUNT = wellknown.AGENT
"""Account of the agent that serves logs and streams. vc-manager makes its only tokens."""
AGENT_TOKENS_ROLE = f"{AGENT_ACCOUNT}-tokens"
TOKEN_SECRET = f"{SYNCER_ACCOUNT}-token"
"""Secret in the target with a token that did not expire. Earlier versions created it."""
KUBECONFIG_KEY = "kubeconfig"
MANAGED_BY = {"app.kubernetes.io/managed-by": "kubectl-vc"}
_TAINT_PATTERN = re.compile(r"([^=:]+)(?:=([^:]*))?:(\w+)")
MAX_TARGET_NAME = 56
"""A label has the name of the virtual node of the target, which is `target-NAME`."""
MAX_RESOLVERS = 3
_SHORT_UID_CHARACTERS = 8  # digits of a UID, enough to distinguish a handful of clusters


@dataclass(frozen=True, slots=True)
class TargetObjects:
    """The objects in the target for one home cluster."""

    home_identity: str
    """UID of the home cluster's kube-system."""
    mode: AccessMode = "apiserver"
    """Mode of its agent, on which the agent's rights depend."""

    @property
    def namespace(self) -> str:
        """Namespace of the account."""
        return build_accounts_namespace(self.home_identity)

    @property
    def role_name(self) -> str:
        """Name of the ClusterRole and of its binding."""
        return f"virtual-cluster:target:{self.home_identity[:_SHORT_UID_CHARACTERS]}"

    @property
    def rules_role_name(self) -> str:
        """Name of the aggregated ClusterRole for kinds of SyncRules, and of its binding."""
        return f"virtual-cluster:target-rules:{self.home_identity[:_SHORT_UID_CHARACTERS]}"

    @property
    def agent_role_name(self) -> str:
        """Name of the agent's ClusterRole and of its binding."""
        return f"virtual-cluster:target-agent:{self.home_identity[:_SHORT_UID_CHARACTERS]}"

    @property
    def policy_name(self) -> str:
        """Name of the admission policy of the syncer's account and of its binding."""
        return f"virtual-cluster-syncer-{self.home_identity[:_SHORT_UID_CHARACTERS]}"

    @property
    def agent_policy_name(self) -> str:
        """Name of the admission policy of the agent's account and of its binding."""
        return f"virtual-cluster-agent-{self.home_identity[:_SHORT_UID_CHARACTERS]}"

    @property
    def namespace_role_name(self) -> str:
        """Name of the ClusterRole that the syncer binds in each super namespace."""
        return build_namespace_role(self.namespace)

    def build_policies(self) -> list[tuple[Resource, Object]]:
        """Return the admission policies of both accounts, each with its binding."""
        syncer = catalog.read_target_policy("syncer")
        syncer = syncer.replace(wellknown.SYNCER_NAMESPACE_ROLE, self.namespace_role_name)
        agent = catalog.read_target_policy("agent")
        return [
            *self._build_policy(self.policy_name, syncer),
            *self._build_policy(self.agent_policy_name, agent),
        ]

    def _build_policy(self, name: str, text: str) -> list[tuple[Resource, Object]]:
        policy, binding = yaml.safe_load_all(text.replace("ACCOUNTS_NAMESPACE", self.namespace))
        specs = (
            (VALIDATING_ADMISSION_POLICIES, policy["spec"]),
            (VALIDATING_ADMISSION_POLICY_BINDINGS, {**binding["spec"], "policyName": name}),
        )
        return [(kind, self._build_object(kind, name, spec=spec)) for kind, spec in specs]

    def build_objects(self) -> list[tuple[Resource, Object]]:
        """Return all objects in the order of creation. The policies come before the rights."""
        role = yaml.safe_load(catalog.read_target_role())["rules"]
        namespace_role = yaml.safe_load(catalog.read_target_namespace_role())["rules"]
        bind = {
            "apiGroups": [CLUSTER_ROLES.group],
            "resources": [CLUSTER_ROLES.plural],
            "resourceNames": [self.namespace_role_name],
            "verbs": ["bind"],
        }
        agent_role = yaml.safe_load(catalog.read_target_agent_role(self.mode))["rules"]
        tokens = {
            "apiGroups": [""],
            "resources": ["serviceaccounts/token"],
            "resourceNames": [AGENT_ACCOUNT, SYNCER_ACCOUNT],
            "verbs": ["create"],
        }
        no_token = {"automountServiceAccountToken": False}
        return [
            (NAMESPACES, self._build_object(NAMESPACES, self.namespace)),
            (SERVICE_ACCOUNTS, self._build_object(SERVICE_ACCOUNTS, SYNCER_ACCOUNT, **no_token)),
            (SERVICE_ACCOUNTS, self._build_object(SERVICE_ACCOUNTS, AGENT_ACCOUNT, **no_token)),
            *self.build_policies(),
            (
                CLUSTER_ROLES,
                self._build_object(CLUSTER_ROLES, self.namespace_role_name, rules=namespace_role),
            ),
            (
                CLUSTER_ROLES,
                self._build_object(CLUSTER_ROLES, self.role_name, rules=[*role, bind]),
            ),
            self._build_binding(
                CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, self.role_name, SYNCER_ACCOUNT
            ),
            (
                CLUSTER_ROLES,
                self._build_object(CLUSTER_ROLES, self.agent_role_name, rules=agent_role),
            ),
            self._build_binding(
                CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, self.agent_role_name, AGENT_ACCOUNT
            ),
            (ROLES, self._build_object(ROLES, AGENT_TOKENS_ROLE, rules=[tokens])),
            self._build_binding(ROLE_BINDINGS, ROLES, AGENT_TOKENS_ROLE, SYNCER_ACCOUNT),
            *self.build_rules_objects(),
        ]

    def build_rules_objects(self) -> list[tuple[Resource, Object]]:
        """Return the role for kinds of SyncRules, and its binding.

        Its rules are those of all ClusterRoles with the label, as in the home cluster. The field
        `rules` must be missing, because a controller of the target writes it.
        """
        selector = {"matchLabels": {wellknown.AGGREGATE_TO_SYNCER: "true"}}
        name = self.rules_role_name
        aggregation = {"clusterRoleSelectors": [selector]}
        return [
            (CLUSTER_ROLES, self._build_object(CLUSTER_ROLES, name, aggregationRule=aggregation)),
            self._build_binding(CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, name, SYNCER_ACCOUNT),
        ]

    def is_own_object(self, metadata: Mapping[str, Any]) -> bool:
        """Return whether an object in the target was made for this home cluster."""
        return (metadata.get("labels") or {}).get(wellknown.TARGET_OF) == self.home_identity

    def _build_binding(
        self, resource: Resource, role: Resource, name: str, account: str
    ) -> tuple[Resource, Object]:
        """Return the binding of an account to the role of the same name."""
        reference = {"apiGroup": role.group, "kind": role.kind, "name": name}
        subject = {"kind": "ServiceAccount", "name": account, "namespace": self.namespace}
        return resource, self._build_object(resource, name, roleRef=reference, subjects=[subject])

    def _build_object(self, resource: Resource, name: str, **more: Any) -> Object:
        metadata: dict[str, Any] = {
            "name": name,
            "labels": {**MANAGED_BY, wellknown.TARGET_OF: self.home_identity},
        }
        if resource.namespaced:
            metadata["namespace"] = self.namespace
        return {
            "apiVersion": resource.api_version,
            "kind": resource.kind,
            "metadata": metadata,
            **more,
        }


def build_secret_name(name: str) -> str:
    """Return the name of the Secret with the credentials of a target."""
    return f"target-{name}"


def build_secret(
    name: str, namespace: str, content: bytes, annotations: Mapping[str, str] | None = None
) -> Object:
    """Return the Secret with a target's kubeconfig.

    The annotations have the times of its token, by which vc-manager renews it.
    """
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": build_secret_name(name),
            "namespace": namespace,
            "labels": dict(MANAGED_BY),
            "annotations": dict(annotations or {}),
        },
        "type": "Opaque",
        "data": {KUBECONFIG_KEY: base64.b64encode(content).decode()},
    }


def build_kubelet_secret(name: str, namespace: str, pem: bytes) -> Object:
    """Return the Secret's part about kubelets.

    Applied separately, it stays when a join is renewed.
    """
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": build_secret_name(name), "namespace": namespace},
        "data": {secret_kubeconfig.KUBELET_AUTHORITIES_KEY: base64.b64encode(pem).decode()},
    }


def build_super_cluster(
    name: str,
    *,
    mode: AccessMode,
    labels: Mapping[str, str],
    taints: Iterable[Mapping[str, str]],
    resolvers: Iterable[str],
) -> Object:
    """Return the SuperCluster of a target."""
    spec: dict[str, Any] = {
        "secretRef": {"name": build_secret_name(name), "key": KUBECONFIG_KEY},
        "mode": mode,
    }
    if labels:
        spec["labels"] = dict(labels)
    if found := [dict(taint) for taint in taints]:
        spec["taints"] = found
    if servers := list(resolvers):
        spec["network"] = {"resolvers": servers}
    return {
        "apiVersion": SUPER_CLUSTERS.api_version,
        "kind": SUPER_CLUSTERS.kind,
        "metadata": {"name": name, "labels": dict(MANAGED_BY)},
        "spec": spec,
    }


def build_kubeconfig(
    name: str, *, server: str, ca: bytes, token: str, tls_server_name: str
) -> bytes:
    """Return the kubeconfig of the account, with all data inline."""
    cluster = {
        "server": server,
        "certificate-authority-data": base64.b64encode(ca).decode(),
        **({"tls-server-name": tls_server_name} if tls_server_name else {}),
    }
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": cluster}],
        "users": [{"name": SYNCER_ACCOUNT, "user": {"token": token}}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": SYNCER_ACCOUNT}}],
        "current-context": name,
    }
    return to_yaml(document).encode()


def check_target_name(name: str, *, home: str = "Choose another name.") -> str:
    """Return the name of a target. Raises CliProblem for an invalid name.

    `home_identity` is the remedy in the message for the home cluster's name.
    """
    if name == HOME:
        raise CliError(f"{HOME} is the name of the home cluster. {home}")
    if not names.is_dns_label(name) or len(name) > MAX_TARGET_NAME:
        rule = names.describe_label_rule(MAX_TARGET_NAME)
        raise CliError(f"{name!r} is not a valid name of a SuperCluster. Use {rule}.")
    return name


def parse_labels(given: Iterable[str]) -> dict[str, str]:
    """Parse `--label KEY=VALUE`. Raises CliProblem."""
    found = {}
    for text in given:
        key, equals, value = text.partition("=")
        if not (key and equals):
            raise CliError(f"--label {text!r} is not KEY=VALUE. Write it like zone=a.")
        found[key] = value
    return found


def parse_resolvers(given: Iterable[str]) -> list[str]:
    """Parse `--resolver ADDRESS`. Raises CliProblem."""
    found = list(given)
    for text in found:
        try:
            ipaddress.ip_address(text)
        except ValueError:
            raise CliError(
                f"--resolver {text!r} is not an IP address. Write it like 10.0.0.10."
            ) from None
        if "%" in text:
            raise CliError(
                f"--resolver {text!r} names an interface, which other machines do not have."
            )
    if len(found) > MAX_RESOLVERS:
        raise CliError(
            f"--resolver is used {len(found)} times. A pod can have at most {MAX_RESOLVERS}."
        )
    return found


def load_kubelet_authorities(path: Path) -> bytes:
    """Read `--kubelet-ca FILE`. Raises CliProblem."""
    try:
        with path.open("rb") as stream:  # a device such as /dev/zero has no end
            pem = stream.read(secret_kubeconfig.MAX_BYTES + 1)
    except OSError as problem:
        raise CliError(f"--kubelet-ca {path} cannot be read: {problem.strerror}.") from problem
    if trouble := secret_kubeconfig.check_authorities(pem):
        raise CliError(f"--kubelet-ca {path} {trouble}")
    return pem


def parse_taints(given: Iterable[str]) -> list[dict[str, str]]:
    """Parse `--taint KEY[=VALUE]:EFFECT`. Raises CliProblem."""
    found = []
    for text in given:
        match = _TAINT_PATTERN.fullmatch(text)
        if match is None or match[3] not in get_args(TaintEffect):
            effects = ", ".join(get_args(TaintEffect))
            raise CliError(f"--taint {text!r} is not KEY[=VALUE]:EFFECT with one of {effects}.")
        found.append({"key": match[1], "value": match[2] or "", "effect": match[3]})
    return found
