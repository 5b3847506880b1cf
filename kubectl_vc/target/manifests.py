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
from kubectl_vc.output.cli_errors import CliProblem
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
    SECRETS,
    SERVICE_ACCOUNTS,
    SUPER_CLUSTERS,
    Resource,
)
from tenancy.super_clusters import HOME, Effect, Mode, accounts_namespace

ACCOUNT = wellknown.SYNCER
AGENT_ACCOUNT = wellknown.AGENT
"""Account of the agent that serves logs and streams. vc-manager makes its only tokens."""
AGENT_TOKENS = f"{AGENT_ACCOUNT}-tokens"
TOKEN_SECRET = f"{ACCOUNT}-token"
KEY = "kubeconfig"
MANAGED_BY = {"app.kubernetes.io/managed-by": "kubectl-vc"}
_TAINT = re.compile(r"([^=:]+)(?:=([^:]*))?:(\w+)")
MAX_NAME = 56
"""A label has the name of the virtual node of the target, which is `target-NAME`."""
MAX_RESOLVERS = 3
_SHORT = 8  # digits of a UID, enough to distinguish a handful of clusters


@dataclass(frozen=True, slots=True)
class There:
    """The objects in the target for one home cluster."""

    home: str
    """UID of the home cluster's kube-system."""
    mode: Mode = "apiserver"
    """Mode of its agent, on which the agent's rights depend."""

    @property
    def namespace(self) -> str:
        """Namespace of the account."""
        return accounts_namespace(self.home)

    @property
    def role(self) -> str:
        """Name of the ClusterRole and of its binding."""
        return f"virtual-cluster:target:{self.home[:_SHORT]}"

    @property
    def agent_role(self) -> str:
        """Name of the agent's ClusterRole and of its binding."""
        return f"virtual-cluster:target-agent:{self.home[:_SHORT]}"

    def objects(self, *, lasting: bool) -> list[tuple[Resource, Object]]:
        """Return all objects in the order of creation.

        `lasting` adds a token that does not expire.
        """
        role = yaml.safe_load(catalog.target_role())["rules"]
        agent_role = yaml.safe_load(catalog.target_agent_role(self.mode))["rules"]
        tokens = {
            "apiGroups": [""],
            "resources": ["serviceaccounts/token"],
            "resourceNames": [AGENT_ACCOUNT],
            "verbs": ["create"],
        }
        no_token = {"automountServiceAccountToken": False}
        made = [
            (NAMESPACES, self._object(NAMESPACES, self.namespace)),
            (SERVICE_ACCOUNTS, self._object(SERVICE_ACCOUNTS, ACCOUNT, **no_token)),
            (SERVICE_ACCOUNTS, self._object(SERVICE_ACCOUNTS, AGENT_ACCOUNT, **no_token)),
            (CLUSTER_ROLES, self._object(CLUSTER_ROLES, self.role, rules=role)),
            self._binding(CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, self.role, ACCOUNT),
            (CLUSTER_ROLES, self._object(CLUSTER_ROLES, self.agent_role, rules=agent_role)),
            self._binding(CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, self.agent_role, AGENT_ACCOUNT),
            (ROLES, self._object(ROLES, AGENT_TOKENS, rules=[tokens])),
            self._binding(ROLE_BINDINGS, ROLES, AGENT_TOKENS, ACCOUNT),
        ]
        if lasting:
            token = self._object(SECRETS, TOKEN_SECRET, type="kubernetes.io/service-account-token")
            token["metadata"]["annotations"] = {"kubernetes.io/service-account.name": ACCOUNT}
            made.append((SECRETS, token))
        return made

    def is_ours(self, metadata: Mapping[str, Any]) -> bool:
        """Return whether an object in the target was made for this home cluster."""
        return (metadata.get("labels") or {}).get(wellknown.TARGET_OF) == self.home

    def _binding(
        self, resource: Resource, role: Resource, name: str, account: str
    ) -> tuple[Resource, Object]:
        """Return the binding of an account to the role of the same name."""
        reference = {"apiGroup": role.group, "kind": role.kind, "name": name}
        subject = {"kind": "ServiceAccount", "name": account, "namespace": self.namespace}
        return resource, self._object(resource, name, roleRef=reference, subjects=[subject])

    def _object(self, resource: Resource, name: str, **more: Any) -> Object:
        metadata: dict[str, Any] = {
            "name": name,
            "labels": {**MANAGED_BY, wellknown.TARGET_OF: self.home},
        }
        if resource.namespaced:
            metadata["namespace"] = self.namespace
        return {
            "apiVersion": resource.api_version,
            "kind": resource.kind,
            "metadata": metadata,
            **more,
        }


def secret_name(name: str) -> str:
    """Return the name of the Secret with the credentials of a target."""
    return f"target-{name}"


def secret(name: str, namespace: str, content: bytes) -> Object:
    """Return the Secret with a target's kubeconfig."""
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": secret_name(name),
            "namespace": namespace,
            "labels": dict(MANAGED_BY),
        },
        "type": "Opaque",
        "data": {KEY: base64.b64encode(content).decode()},
    }


def kubelet_secret(name: str, namespace: str, pem: bytes) -> Object:
    """Return the Secret's part about kubelets.

    Applied separately, it stays when a join is renewed.
    """
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": secret_name(name), "namespace": namespace},
        "data": {secret_kubeconfig.KUBELET_AUTHORITIES: base64.b64encode(pem).decode()},
    }


def super_cluster(
    name: str,
    *,
    mode: Mode,
    labels: Mapping[str, str],
    taints: Iterable[Mapping[str, str]],
    resolvers: Iterable[str],
) -> Object:
    """Return the SuperCluster of a target."""
    spec: dict[str, Any] = {"secretRef": {"name": secret_name(name), "key": KEY}, "mode": mode}
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


def kubeconfig(name: str, *, server: str, ca: bytes, token: str, tls_server_name: str) -> bytes:
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
        "users": [{"name": ACCOUNT, "user": {"token": token}}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": ACCOUNT}}],
        "current-context": name,
    }
    return to_yaml(document).encode()


def checked_name(name: str, *, home: str = "choose another one") -> str:
    """Return the name of a target. Raises CliProblem for an invalid name.

    `home` is the remedy in the message for the home cluster's name.
    """
    if name == HOME:
        raise CliProblem(f"{HOME} is the name of the cluster of the components themselves; {home}")
    if not names.is_dns_label(name) or len(name) > MAX_NAME:
        rule = names.label_rule(MAX_NAME)
        raise CliProblem(f"{name!r} is no name for a SuperCluster; use {rule}")
    return name


def labels(given: Iterable[str]) -> dict[str, str]:
    """Parse `--label KEY=VALUE`. Raises CliProblem."""
    found = {}
    for text in given:
        key, equals, value = text.partition("=")
        if not (key and equals):
            raise CliProblem(f"--label {text!r} is not KEY=VALUE")
        found[key] = value
    return found


def resolvers(given: Iterable[str]) -> list[str]:
    """Parse `--resolver ADDRESS`. Raises CliProblem."""
    found = list(given)
    for text in found:
        try:
            ipaddress.ip_address(text)
        except ValueError:
            raise CliProblem(f"--resolver {text!r} is not an IP address") from None
        if "%" in text:
            raise CliProblem(
                f"--resolver {text!r} names an interface, which means nothing elsewhere"
            )
    if len(found) > MAX_RESOLVERS:
        raise CliProblem(
            f"--resolver is given {len(found)} times; a pod has {MAX_RESOLVERS} at most"
        )
    return found


def kubelet_authorities(path: Path) -> bytes:
    """Read `--kubelet-ca FILE`. Raises CliProblem."""
    try:
        pem = path.read_bytes()
    except OSError as problem:
        raise CliProblem(f"--kubelet-ca {path} cannot be read: {problem.strerror}") from problem
    if trouble := secret_kubeconfig.authorities_problem(pem):
        raise CliProblem(f"--kubelet-ca {path} {trouble}")
    return pem


def taints(given: Iterable[str]) -> list[dict[str, str]]:
    """Parse `--taint KEY[=VALUE]:EFFECT`. Raises CliProblem."""
    found = []
    for text in given:
        match = _TAINT.fullmatch(text)
        if match is None or match[3] not in get_args(Effect):
            effects = ", ".join(get_args(Effect))
            raise CliProblem(f"--taint {text!r} is not KEY[=VALUE]:EFFECT with one of {effects}")
        found.append({"key": match[1], "value": match[2] or "", "effect": match[3]})
    return found
