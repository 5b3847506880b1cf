"""Loader of the package's data about each Kubernetes minor.

Owns the location of the files. Must not know the use of the data. Hazard: the data must be read
through importlib.resources. An installed wheel may have no folder to open.
"""

import functools
from dataclasses import dataclass
from importlib import resources
from importlib.resources.abc import Traversable
from typing import Any

import yaml


class UnknownMinorError(LookupError):
    """No data exists for this minor. The message lists the known minors."""


@dataclass(frozen=True, slots=True)
class Controller:
    """One controller of kube-controller-manager, and whether it runs for a tenant."""

    name: str
    runs: bool
    by_default: bool
    """Whether `*` in the flag includes it."""
    reason: str


@dataclass(frozen=True, slots=True)
class Versions:
    """The versions that make up a control plane."""

    kubernetes: str
    etcd: str
    coredns: str
    metrics_server: str


@functools.cache
def minors() -> tuple[str, ...]:
    """Return the known minors, oldest first."""
    return tuple(sorted(_document("minors"), key=_number))


def versions(minor: str) -> Versions:
    """Return the versions of a minor's control plane. Raises UnknownMinorError."""
    _check(minor)
    return Versions(**_document("minors")[minor])


@functools.cache
def controllers(minor: str) -> tuple[Controller, ...]:
    """Return the verdict on each controller of a minor. Raises UnknownMinorError."""
    _check(minor)
    return tuple(
        Controller(
            name=row["name"],
            runs=row["verdict"] == "on",
            by_default=row.get("byDefault", True),
            reason=row["reason"],
        )
        for row in _document("controllers")
        if _number(row.get("since", minor)) <= _number(minor) <= _number(row.get("until", minor))
    )


def controllers_flag(minor: str) -> str:
    """Return the value of kube-controller-manager's --controllers."""
    rows = controllers(minor)
    added = [row.name for row in rows if row.runs and not row.by_default]
    removed = [f"-{row.name}" for row in rows if row.by_default and not row.runs]
    return ",".join(["*", *added, *removed])


@functools.cache
def template(name: str) -> str:
    """Return the text of a template, which is the same for every minor."""
    return (_root() / "templates" / f"{name}.yaml.j2").read_text(encoding="utf-8")


@functools.cache
def bootstrap(name: str) -> str:
    """Return the text of a file with objects that every tenant gets."""
    return (_root() / "bootstrap" / name).read_text(encoding="utf-8")


@functools.cache
def target_role() -> str:
    """Return the text of the ClusterRole that another super cluster must grant."""
    return (_root() / "targets" / "cluster-role.yaml").read_text(encoding="utf-8")


@functools.cache
def target_agent_role(mode: str) -> str:
    """Return the text of the ClusterRole that another super cluster must grant our agent.

    `mode` is that of the SuperCluster's spec.
    """
    return (_root() / "targets" / f"agent-role-{mode}.yaml").read_text(encoding="utf-8")


def sample(name: str) -> str:
    """Return the text of a sample ClusterVersion."""
    return (_root() / "samples" / f"{name}.yaml").read_text(encoding="utf-8")


def _root() -> Traversable:
    return resources.files("clusterversions")


def _check(minor: str) -> None:
    if minor not in minors():
        raise UnknownMinorError(
            f"Kubernetes {minor!r} is not known here; known are {', '.join(minors())}"
        )


@functools.cache
def _document(name: str) -> Any:
    return yaml.safe_load((_root() / f"{name}.yaml").read_text(encoding="utf-8"))


def _number(minor: str) -> tuple[int, ...]:
    """Return the sort key of a minor."""
    return tuple(map(int, minor.split(".")))
