"""Paths, backends and annotation values of Ingresses that may reach a shared Ingress controller.

Pure. Owns the characters of a path, the types of paths, the kinds of backend Services and the
values of curated annotations. Must not know hosts and classes.

Hazard: a path must have no character with a meaning in the configuration of a controller.
Controllers have written paths into their configuration unchecked (CVE-2021-25745, CVE-2021-25748,
CVE-2026-4342, CVE-2026-24512), and a controller may read all Secrets.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from kubeio.cache.store import Entry
from syncer.model.rejections import RejectionProblem
from syncer.model.tenant_view import TenantView
from syncer.model.unstructured import as_mapping, as_mappings
from tenancy.policy import ingress_annotations

MAX_PATH = 512
"""Maximum length of a path in characters."""
_PATH = re.compile(r"/[A-Za-z0-9/_.~%+@:=,-]*")
_SPECIFIC_PATH = re.compile(r"(/[A-Za-z0-9/_.~%+@:=,*-]*)?")
"""A path that a controller interprets. Cloud controllers write `/*` for a prefix."""
_PLAIN_TYPES = ("Exact", "Prefix")
_SPECIFIC_TYPE = "ImplementationSpecific"
_MAX_SHOWN_CHARACTERS = 60
EXTERNAL_NAME = "ExternalName"


def find_problems(
    spec: Mapping[str, Any], metadata: Mapping[str, Any], view: TenantView
) -> Iterator[RejectionProblem]:
    """Yield a problem for each path, backend and annotation value that must not be synced."""
    for where, path in _iterate_paths(spec):
        yield from _find_path_problems(path, where, view)
    if view.policy.network.external_name_backends != "Allow":
        yield from _find_backend_problems(spec, str(metadata["namespace"]), view)
    sets = view.policy.network.ingress_annotations
    for key, value in sorted((metadata.get("annotations") or {}).items()):
        if not ingress_annotations.has_allowed_value(key, str(value), sets):
            text = "has a value that is not allowed for this key. Correct it, or remove it"
            yield RejectionProblem("annotation", f"metadata.annotations[{key}]", text)


def _iterate_paths(spec: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for number, rule in enumerate(as_mappings(spec.get("rules"))):
        for index, path in enumerate(as_mappings(as_mapping(rule.get("http")).get("paths"))):
            yield f"spec.rules[{number}].http.paths[{index}]", path


def _find_path_problems(
    path: Mapping[str, Any], where: str, view: TenantView
) -> Iterator[RejectionProblem]:
    kind, text = path.get("pathType"), path.get("path")
    is_specific = kind == _SPECIFIC_TYPE
    if is_specific and view.policy.network.implementation_specific_paths != "Allow":
        advice = (
            "must be Exact or Prefix, because each controller interprets ImplementationSpecific"
            " itself. Use Prefix, or ask your platform administrator to set"
            " spec.network.implementationSpecificPaths of the TenantPolicy"
        )
        yield RejectionProblem("ingress-path", f"{where}.pathType", advice)
        return
    if not is_specific and kind not in _PLAIN_TYPES:
        advice = "must be Exact or Prefix. Correct the object"
        yield RejectionProblem("ingress-path", f"{where}.pathType", advice)
        return
    pattern = _SPECIFIC_PATH if is_specific else _PATH
    if text is None or (
        isinstance(text, str) and len(text) <= MAX_PATH and pattern.fullmatch(text)
    ):
        return
    advice = (
        f"must not be {str(text)[:_MAX_SHOWN_CHARACTERS]!r}. Use at most {MAX_PATH} letters, digits"
        " and characters of /_.~%+@:=,- after a first /"
    )
    yield RejectionProblem("ingress-path", f"{where}.path", advice)


def iterate_backends(spec: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the Services that an Ingress names, each with its place in the spec."""
    places = [("spec.defaultBackend", as_mapping(spec.get("defaultBackend")))]
    places += [
        (f"{where}.backend", as_mapping(path.get("backend")))
        for where, path in _iterate_paths(spec)
    ]
    for where, backend in places:
        name = as_mapping(backend.get("service")).get("name")
        if isinstance(name, str) and name:
            yield where, name


def _find_backend_problems(
    spec: Mapping[str, Any], namespace: str, view: TenantView
) -> Iterator[RejectionProblem]:
    store = view.stores.get("Service")
    for where, name in iterate_backends(spec):
        service = store.get(namespace, name) if store is not None else None
        if is_external_name(service):
            text = (
                f"names the Service {name} of type ExternalName, whose name the Ingress controller"
                " resolves. Use a Service with a selector, or ask your platform administrator to"
                " set spec.network.externalNameBackends of the TenantPolicy"
            )
            yield RejectionProblem("ingress-backend", f"{where}.service", text)


def is_external_name(service: Entry | None) -> bool:
    """Return whether a Service has the type ExternalName."""
    if service is None:
        return False
    return as_mapping(service.decode().get("spec")).get("type") == EXTERNAL_NAME
