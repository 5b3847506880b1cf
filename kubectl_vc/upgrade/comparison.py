"""Difference between two ClusterVersions, as an administrator reads it before an upgrade. Pure.

Must not know how a control plane is rendered. Both versions get the templates of the running
vc-manager, so only images, flags and fields differ.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from clusterversions import catalog
from tenancy.specs import ClusterVersionSpec, ComponentBundle

ETCD, API_SERVER, CONTROLLER_MANAGER = "etcd", "apiserver", "controller-manager"
ORDER = (ETCD, API_SERVER, CONTROLLER_MANAGER, "coredns", "metrics-server")
"""Components in the order of an upgrade."""
_CORE = frozenset(ORDER[:3])

_RESTARTED_BY_FIELD: Mapping[str, frozenset[str]] = {
    "node_selector": frozenset(ORDER),
    "tolerations": frozenset(ORDER),
    "priority_class_name": frozenset(ORDER),
    "image_pull_secrets": frozenset(ORDER),
    "encryption": frozenset({API_SERVER}),
    "audit": frozenset({API_SERVER}),
    "etcd_storage": frozenset({ETCD}),
    "replicas": frozenset(),
    "service_type": frozenset(),
    "service_annotations": frozenset(),
}
"""Components that restart when a field of the short form differs."""
_FLAG = re.compile(r"--(?P<name>[a-z0-9-]+)(=(?P<value>.*))?", re.DOTALL)
_RELEASE = re.compile(r"(?P<minor>[0-9]+\.[0-9]+)(\.[0-9]+)?")


@dataclass(frozen=True, slots=True)
class ImageChange:
    """Another version of a component."""

    component: str
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class FlagChange:
    """Another value of a flag. None: the flag is not set."""

    component: str
    flag: str
    before: str | None
    after: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionDifference:
    """Changes for a tenant."""

    restarts: tuple[str, ...]
    """Components whose pods are recreated, in order."""
    images: tuple[ImageChange, ...] = ()
    flags: tuple[FlagChange, ...] = ()
    fields: tuple[str, ...] = ()
    """Other fields of the ClusterVersion that differ."""


def compare_versions(before: ClusterVersionSpec, after: ClusterVersionSpec) -> VersionDifference:
    """Return the difference. Raises catalog.UnknownMinorError."""
    if before.is_bundled != after.is_bundled:
        return VersionDifference(restarts=ORDER, fields=("the form of the ClusterVersion",))
    if before.is_bundled:
        return _compare_bundles(before, after)
    old, new = _resolve_images(before), _resolve_images(after)
    images = tuple(
        ImageChange(each, old[each], new[each]) for each in ORDER if old[each] != new[each]
    )
    flags = tuple(
        change
        for each in ORDER[:3]
        for change in compare_flags(each, _list_flags(before, each), _list_flags(after, each))
    )
    fields, restarted = _compare_fields(before, after)
    restarted |= {each.component for each in images} | {each.component for each in flags}
    return VersionDifference(restarts=_sort(restarted), images=images, flags=flags, fields=fields)


def compare_flags(
    component: str, before: Mapping[str, str], after: Mapping[str, str]
) -> tuple[FlagChange, ...]:
    """Return the flags that differ, by name."""
    return tuple(
        FlagChange(component, name, before.get(name), after.get(name))
        for name in sorted({*before, *after})
        if before.get(name) != after.get(name)
    )


def count_etcd_members(spec: ClusterVersionSpec) -> int:
    """Return the number of etcd members, of a bundle by its flag `--initial-cluster`."""
    if not spec.is_bundled:
        return spec.replicas
    words = _list_words(spec.etcd)
    for word, following in zip(words, [*words[1:], ""], strict=True):
        flag, equals, value = word.partition("=")
        members = value if equals else following
        if flag == "--initial-cluster" and members:
            return len(members.split(","))
    stateful_set = spec.etcd.statefulset if spec.etcd is not None else {}
    return int((stateful_set.get("spec") or {}).get("replicas", 1))


def count_api_servers(spec: ClusterVersionSpec) -> int:
    """Return the number of API servers."""
    if not spec.is_bundled:
        return spec.replicas
    stateful_set = spec.api_server.statefulset if spec.api_server is not None else {}
    return int((stateful_set.get("spec") or {}).get("replicas", 1))


def _resolve_images(spec: ClusterVersionSpec) -> dict[str, str]:
    match = _RELEASE.fullmatch(spec.kubernetes_version)
    versions = catalog.get_versions(match["minor"] if match else spec.kubernetes_version)
    if match and match[2]:
        versions = replace(versions, kubernetes=spec.kubernetes_version)
    return {
        ETCD: versions.etcd,
        API_SERVER: versions.kubernetes,
        CONTROLLER_MANAGER: versions.kubernetes,
        "coredns": versions.coredns,
        "metrics-server": versions.metrics_server,
    }


def _list_flags(spec: ClusterVersionSpec, component: str) -> dict[str, str]:
    """Return the flags that depend on the ClusterVersion."""
    if component == ETCD:
        return dict(spec.extra_args.etcd)
    if component == API_SERVER:
        return dict(spec.extra_args.api_server)
    minor = ".".join(spec.kubernetes_version.split(".")[:2])
    flags = {
        "controllers": catalog.build_controllers_flag(minor),
        "leader-elect": "true" if spec.replicas > 1 else "false",
    }
    return {**flags, **spec.extra_args.controller_manager}


def _compare_fields(
    before: ClusterVersionSpec, after: ClusterVersionSpec
) -> tuple[tuple[str, ...], set[str]]:
    """Return the fields that differ, and the components that restart because of them."""
    names, restarted = [], set[str]()
    for field, components in _RESTARTED_BY_FIELD.items():
        if getattr(before, field) != getattr(after, field):
            names.append(_spell(field))
            restarted |= components
    old, new = before.resources, after.resources
    parts = ("etcd", "api_server", "controller_manager", "dns", "metrics_server")
    for field, component in zip(parts, ORDER, strict=True):
        if getattr(old, field) != getattr(new, field):
            names.append(f"resources.{_spell(field)}")
            restarted.add(component)
    return tuple(names), restarted


def _compare_bundles(before: ClusterVersionSpec, after: ClusterVersionSpec) -> VersionDifference:
    images: list[ImageChange] = []
    flags: list[FlagChange] = []
    restarted: set[str] = set()
    pairs = (
        (ETCD, before.etcd, after.etcd),
        (API_SERVER, before.api_server, after.api_server),
        (CONTROLLER_MANAGER, before.controller_manager, after.controller_manager),
    )
    for component, old, new in pairs:
        if _get_template(old) == _get_template(new):
            continue
        restarted.add(component)
        first, second = _get_images(old), _get_images(new)
        if first != second:
            images.append(ImageChange(component, first, second))
        flags += compare_flags(component, _parse_flags(old), _parse_flags(new))
    return VersionDifference(restarts=_sort(restarted), images=tuple(images), flags=tuple(flags))


def _get_template(bundle: ComponentBundle | None) -> dict[str, Any]:
    template = ((bundle.statefulset if bundle else {}).get("spec") or {}).get("template") or {}
    return dict(template)


def _list_containers(bundle: ComponentBundle | None) -> list[dict[str, Any]]:
    return list((_get_template(bundle).get("spec") or {}).get("containers") or ())


def _get_images(bundle: ComponentBundle | None) -> str:
    return ", ".join(str(each.get("image", "")) for each in _list_containers(bundle)) or "none"


def _list_words(bundle: ComponentBundle | None) -> list[str]:
    return [
        str(word)
        for each in _list_containers(bundle)
        for word in (*(each.get("command") or ()), *(each.get("args") or ()))
    ]


def _parse_flags(bundle: ComponentBundle | None) -> dict[str, str]:
    found = (_FLAG.fullmatch(word) for word in _list_words(bundle))
    return {each["name"]: each["value"] or "" for each in found if each}


def _sort(components: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(components, key=ORDER.index))


def _spell(field: str) -> str:
    """Return the name of a field as manifests have it."""
    names = {each.name: each.encode_name for each in msgspec.structs.fields(ClusterVersionSpec)}
    head, *rest = field.split("_")
    return names.get(field, head + "".join(word.title() for word in rest))
