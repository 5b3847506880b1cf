"""Changes that API servers refuse. Pure.

Owns the rules that matter for the product: immutable fields, finalizers of objects that are being
deleted, kinds that are only replaced with a resourceVersion. Every other object passes.
"""

import copy
from collections.abc import Callable, Mapping
from typing import Any

from tests.support.memapi import refusals

Object = dict[str, Any]

CONDITIONAL = frozenset({"Lease", "ServiceCIDR", "TenantPolicy", "VirtualCluster"})
"""Kinds that are not replaced without a resourceVersion."""
_OUTSIDE_SPEC = ("apiVersion", "kind", "metadata", "status")


def spec_of(body: Object) -> Object:
    """Return what a generation counts: all but metadata and status."""
    return {key: value for key, value in body.items() if key not in _OUTSIDE_SPEC}


def check_finalizers(plural: str, there: Object, new: Object) -> None:
    """Refuse new finalizers of what is being deleted."""
    before = there["metadata"].get("finalizers") or ()
    added = [word for word in new["metadata"].get("finalizers") or () if word not in before]
    if added:
        why = "no new finalizers can be added if the object is being deleted"
        raise refusals.invalid(plural, there["metadata"]["name"], "metadata.finalizers", why)


def check(plural: str, there: Object, new: Object) -> None:
    """Raise RefusedError when a change is not allowed."""
    rule = _RULES.get(there["kind"])
    field = rule(there, new) if rule is not None else ""
    if field:
        raise refusals.invalid(plural, there["metadata"]["name"], field, "field is immutable")


def _pod(there: Object, new: Object) -> str:
    """Only images, the deadline, a shorter grace and more tolerations may be other ones."""
    before, after = copy.deepcopy(there["spec"]), copy.deepcopy(new.get("spec") or {})
    known, told = before.pop("tolerations", None) or [], after.pop("tolerations", None) or []
    if any(toleration not in told for toleration in known):
        return "spec.tolerations"
    deadline, later = (spec.pop("activeDeadlineSeconds", None) for spec in (before, after))
    if deadline is not None and (later is None or later > deadline):
        return "spec.activeDeadlineSeconds"
    for spec in (before, after):
        for container in (*(spec.get("containers") or ()), *(spec.get("initContainers") or ())):
            container.pop("image", None)
    return "spec" if before != after else ""


def _configuration(there: Object, new: Object) -> str:
    if there.get("type", "") != new.get("type", ""):
        return "type"
    if not there.get("immutable"):
        return ""
    if not new.get("immutable"):
        return "immutable"
    same = all((there.get(key) or {}) == (new.get(key) or {}) for key in ("data", "binaryData"))
    return "" if same else "data"


def _service(there: Object, new: Object) -> str:
    before, after = there["spec"], new.get("spec") or {}
    stays = before.get("type") != "ExternalName" and after.get("type") != "ExternalName"
    return "spec.clusterIP" if stays and before.get("clusterIP") != after.get("clusterIP") else ""


_RULES: Mapping[str, Callable[[Object, Object], str]] = {
    "ConfigMap": _configuration,
    "Pod": _pod,
    "Secret": _configuration,
    "Service": _service,
}
