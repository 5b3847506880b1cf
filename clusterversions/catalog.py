"""Loader of the package's data about each Kubernetes minor.

Owns the location of the files. Must not know the use of the data. Hazard: the data must be read
through importlib.resources. An installed wheel may have no folder to open.
"""

import functools
from dataclasses import dataclass
from importlib import resources
from importlib.resources.abc import Traversable
from typing import Any, Literal

import yaml

DEFAULT_MINOR = "1.36"
"""Minor of a component that no ClusterVersion names a minor for. The tests run a super cluster of
this minor, so it can be older than the newest known one."""


class UnknownMinorError(LookupError):
    """No data exists for this minor. The message lists the known minors."""


@dataclass(frozen=True, slots=True)
class ControllerEntry:
    """One controller of kube-controller-manager, and whether it runs for a tenant."""

    name: str
    is_enabled: bool
    by_default: bool
    """Whether `*` in the flag includes it."""
    reason: str


@dataclass(frozen=True, slots=True)
class ComponentVersions:
    """The versions that make up a control plane."""

    kubernetes: str
    etcd: str
    coredns: str
    metrics_server: str


@functools.cache
def list_minors() -> tuple[str, ...]:
    """Return the known minors, oldest first."""
    return tuple(sorted(_load_document("minors"), key=_get_sort_key))


def get_versions(minor: str) -> ComponentVersions:
    """Return the versions of a minor's control plane. Raises UnknownMinorError."""
    _check_minor(minor)
    return ComponentVersions(**_load_document("minors")[minor])


@functools.cache
def list_controllers(minor: str) -> tuple[ControllerEntry, ...]:
    """Return the verdict on each controller of a minor. Raises UnknownMinorError."""
    _check_minor(minor)
    return tuple(
        ControllerEntry(
            name=row["name"],
            is_enabled=row["verdict"] == "on",
            by_default=row.get("byDefault", True),
            reason=row["reason"],
        )
        for row in _load_document("controllers")
        if _get_sort_key(row.get("since", minor))
        <= _get_sort_key(minor)
        <= _get_sort_key(row.get("until", minor))
    )


def build_controllers_flag(minor: str) -> str:
    """Return the value of kube-controller-manager's --controllers."""
    rows = list_controllers(minor)
    added = [row.name for row in rows if row.is_enabled and not row.by_default]
    removed = [f"-{row.name}" for row in rows if row.by_default and not row.is_enabled]
    return ",".join(["*", *added, *removed])


@functools.cache
def read_template(name: str) -> str:
    """Return the text of a template, which is the same for every minor."""
    return (_get_data_root() / "templates" / f"{name}.yaml.j2").read_text(encoding="utf-8")


@functools.cache
def read_bootstrap(name: str) -> str:
    """Return the text of a file with objects that every tenant gets."""
    return (_get_data_root() / "bootstrap" / name).read_text(encoding="utf-8")


@functools.cache
def read_target_role() -> str:
    """Return the text of the ClusterRole that another super cluster must grant."""
    return (_get_data_root() / "targets" / "cluster-role.yaml").read_text(encoding="utf-8")


@functools.cache
def read_target_namespace_role() -> str:
    """Return the text of the ClusterRole that is bound in each super namespace of a target."""
    return (_get_data_root() / "targets" / "namespace-role.yaml").read_text(encoding="utf-8")


@functools.cache
def read_target_policy(account: Literal["agent", "syncer"]) -> str:
    """Return the text of the admission policy for an account in a target.

    ACCOUNTS_NAMESPACE stands for the namespace of that account.
    """
    return (_get_data_root() / "targets" / f"{account}-policy.yaml").read_text(encoding="utf-8")


@functools.cache
def read_target_agent_role(mode: str) -> str:
    """Return the text of the ClusterRole that another super cluster must grant our agent.

    `mode` is that of the SuperCluster's spec.
    """
    return (_get_data_root() / "targets" / f"agent-role-{mode}.yaml").read_text(encoding="utf-8")


def read_sample(name: str) -> str:
    """Return the text of a sample ClusterVersion."""
    return (_get_data_root() / "samples" / f"{name}.yaml").read_text(encoding="utf-8")


def _get_data_root() -> Traversable:
    return resources.files("clusterversions")


def parse_minor(version: str) -> tuple[int, int] | None:
    """Return `(1, 36)` of `1.36` or `v1.36.4+k3s1`, or None for an invalid version."""
    parts = version.removeprefix("v").split(".")
    if len(parts) < 2 or not all(part.isascii() and part.isdigit() for part in parts[:2]):
        return None
    return (int(parts[0]), int(parts[1])) if max(map(len, parts[:2])) < 6 else None


def _check_minor(minor: str) -> None:
    if minor not in list_minors():
        raise UnknownMinorError(
            f"Kubernetes {minor!r} is not known here. Known are {', '.join(list_minors())}"
        )


@functools.cache
def _load_document(name: str) -> Any:
    return yaml.safe_load((_get_data_root() / f"{name}.yaml").read_text(encoding="utf-8"))


def _get_sort_key(minor: str) -> tuple[int, ...]:
    """Return the sort key of a minor."""
    return tuple(map(int, minor.split(".")))
