"""Values of a ClusterVersion's short form: minor version, releases, images, flags.

Pure. Must not know templates. Hazard: some flags have the tenant's identity or address range. A
ClusterVersion that sets them would break every tenant that uses it, so they are refused by name.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from clusterversions import catalog
from tenancy.specs import ClusterVersionSpec, InvalidSpecError

_RELEASE_PATTERN = re.compile(r"(?P<minor>[0-9]+\.[0-9]+)(?P<patch>\.[0-9]+)?")
_FLAG_PATTERN = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")

OWNED_FLAGS: Mapping[str, frozenset[str]] = {
    "etcd": frozenset(
        {
            "name",
            "data-dir",
            "advertise-client-urls",
            "listen-client-urls",
            "listen-peer-urls",
            "initial-advertise-peer-urls",
            "initial-cluster",
            "initial-cluster-token",
            "initial-cluster-state",
            "client-cert-auth",
            "peer-client-cert-auth",
            "cert-file",
            "key-file",
            "trusted-ca-file",
            "peer-cert-file",
            "peer-key-file",
            "peer-trusted-ca-file",
        }
    ),
    "apiServer": frozenset(
        {
            "secure-port",
            "tls-cert-file",
            "tls-private-key-file",
            "client-ca-file",
            "authorization-mode",
            "etcd-servers",
            "etcd-cafile",
            "etcd-certfile",
            "etcd-keyfile",
            "service-cluster-ip-range",
            "service-node-port-range",
            "service-account-signing-key-file",
            "service-account-key-file",
            "service-account-issuer",
            "service-account-extend-token-expiration",
            "authentication-config",
            "anonymous-auth",
            "etcd-prefix",
            "requestheader-client-ca-file",
            "requestheader-allowed-names",
            "proxy-client-cert-file",
            "proxy-client-key-file",
            "kubelet-client-certificate",
            "kubelet-client-key",
            "kubelet-certificate-authority",
            "kubelet-preferred-address-types",
            "encryption-provider-config",
            "encryption-provider-config-automatic-reload",
            "audit-policy-file",
            "audit-log-path",
            "audit-log-maxsize",
            "audit-log-maxbackup",
            "audit-webhook-config-file",
        }
    ),
    "controllerManager": frozenset(
        {
            "kubeconfig",
            "controllers",
            "leader-elect",
            "service-account-private-key-file",
            "root-ca-file",
            "cluster-signing-cert-file",
            "cluster-signing-key-file",
            "cluster-signing-kubelet-serving-cert-file",
            "cluster-signing-kubelet-serving-key-file",
            "cluster-signing-kubelet-client-cert-file",
            "cluster-signing-kubelet-client-key-file",
            "cluster-signing-kube-apiserver-client-cert-file",
            "cluster-signing-kube-apiserver-client-key-file",
            "cluster-signing-legacy-unknown-cert-file",
            "cluster-signing-legacy-unknown-key-file",
            "requestheader-client-ca-file",
            "use-service-account-credentials",
        }
    ),
}
"""Flags that only the manager may set, per component."""

_REPLACEMENTS = {"audit": "Use spec.audit instead", "encryption": "Use spec.encryption instead"}
"""Advice for flags that a field sets, by their first word."""
_OIDC_PREFIX = "oidc-"
"""Prefix of flags that `--authentication-config` excludes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlPlaneRelease:
    """A control plane of known parts."""

    minor: str
    versions: catalog.ComponentVersions
    extra_args: Mapping[str, tuple[str, ...]]


def resolve_release(name: str, spec: ClusterVersionSpec) -> ControlPlaneRelease:
    """Return what a short form means. Raises SpecProblemError."""
    where = f"ClusterVersion {name}"
    match = _RELEASE_PATTERN.fullmatch(spec.kubernetes_version)
    known = ", ".join(catalog.list_minors())
    if match is None:
        raise InvalidSpecError(
            f"{where}: kubernetesVersion {spec.kubernetes_version!r} is neither a minor such as"
            f" 1.36 nor a release such as 1.36.4. Known minors are {known}"
        )
    minor = match["minor"]
    if minor not in catalog.list_minors():
        raise InvalidSpecError(
            f"{where}: kubernetesVersion {spec.kubernetes_version} is not known to this"
            f" vc-manager. Known minors are {known}"
        )
    if spec.replicas not in (1, 3):
        raise InvalidSpecError(f"{where}: replicas is {spec.replicas}. It must be 1 or 3")
    versions = catalog.get_versions(minor)
    if match["patch"]:
        versions = replace(versions, kubernetes=spec.kubernetes_version)
    given = spec.extra_args
    arguments = {
        "etcd": given.etcd,
        "apiServer": given.api_server,
        "controllerManager": given.controller_manager,
    }
    return ControlPlaneRelease(
        minor=minor,
        versions=versions,
        extra_args={part: _build_flags(where, part, flags) for part, flags in arguments.items()},
    )


def get_default_release() -> ControlPlaneRelease:
    """Return the default release. It supplies the parts that upstream's bundles lack."""
    minor = catalog.DEFAULT_MINOR
    return ControlPlaneRelease(minor=minor, versions=catalog.get_versions(minor), extra_args={})


def build_images(registry: str, versions: catalog.ComponentVersions) -> dict[str, str]:
    """Return the image of each component."""
    prefix = f"{registry.rstrip('/')}/" if registry else ""
    return {
        "etcd": f"{prefix}etcd:{versions.etcd}",
        "apiserver": f"{prefix}kube-apiserver:v{versions.kubernetes}",
        "controller_manager": f"{prefix}kube-controller-manager:v{versions.kubernetes}",
        "coredns": f"{prefix}coredns:{versions.coredns}",
        "metrics_server": f"{prefix}metrics-server:v{versions.metrics_server}",
    }


def get_image_tag(stateful_set: Mapping[str, Any]) -> str:
    """Return the tag of the image of the first container. Empty if it has none."""
    image = str(stateful_set["spec"]["template"]["spec"]["containers"][0].get("image", ""))
    name, _, tag = image.partition("@")[0].rpartition(":")
    return tag if name and "/" not in tag else ""


def _build_flags(where: str, part: str, flags: Mapping[str, str]) -> tuple[str, ...]:
    for flag in flags:
        if _FLAG_PATTERN.fullmatch(flag) is None:
            raise InvalidSpecError(
                f"{where}: extraArgs.{part} has the flag {flag!r}. Write flags without leading"
                " dashes, for example event-ttl"
            )
        if part == "apiServer" and flag.startswith(_OIDC_PREFIX):
            raise InvalidSpecError(
                f"{where}: extraArgs.{part} sets {flag}. The API server does not start with it,"
                " because each tenant has an authentication configuration file. Use spec.auth of"
                " the VirtualCluster instead"
            )
        if flag in OWNED_FLAGS[part]:
            raise InvalidSpecError(
                f"{where}: extraArgs.{part} sets {flag}, which vc-manager sets for each tenant."
                f" {_REPLACEMENTS.get(flag.partition('-')[0], 'Remove it')}"
            )
    return tuple(f"--{flag}={value}" for flag, value in sorted(flags.items()))
