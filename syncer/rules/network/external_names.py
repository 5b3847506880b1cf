"""External names of Services, translated so that every resolver in the super cluster agrees.

Pure. No component of the super cluster serves such a Service. An Ingress controller may still
resolve its name, with the DNS of the super cluster.

Hazard: a name in the domain of either cluster must be translated. Otherwise it resolves to a
Service in a namespace of another owner.

Hazard: a synced name must end with a dot. Otherwise the search list of the resolving client can
lead to a namespace of another owner.
"""

import re
from collections.abc import Mapping
from typing import Any

from syncer.model.rejections import Problem
from syncer.model.tenant_view import TenantView

_PATH = "spec.externalName"
_SERVICE_LABELS = 3  # name, namespace, svc
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")


def translated(spec: Mapping[str, Any], view: TenantView) -> tuple[str, Problem | None]:
    """Return the name that is synced, or the problem with it."""
    name = spec.get("externalName")
    if not name:
        return "", None
    if not isinstance(name, str):
        return "", Problem("malformed", _PATH, "must be a name; correct the object")
    labels = name.lower().removesuffix(".").split(".")
    inner = _inside(labels, view.spec.cluster_domain)
    if inner is None and labels[-1] == "svc":
        inner = labels
    if inner is not None:
        if len(inner) != _SERVICE_LABELS or inner[-1] != "svc":
            text = "must be <service>.<namespace>.svc inside this cluster; use such a name"
            return "", Problem("external-name", _PATH, text)
        return f"{inner[0]}.{view.super_namespace(inner[1])}.svc.{view.super_domain}.", None
    return f"{'.'.join(labels)}.", _outside(labels, view)


def _inside(labels: list[str], domain: str) -> list[str] | None:
    """Return a name within a domain. None if it is not in that domain."""
    last = domain.lower().strip(".").split(".")
    return labels[: -len(last)] if labels[-len(last) :] == last else None


def _outside(labels: list[str], view: TenantView) -> Problem | None:
    """Return the problem with a name outside of the cluster, or None."""
    text = ""
    if not all(labels):
        text = "must be a name without empty parts; correct the object"
    elif len(labels) == 1:
        text = "must be a full name, not a single word; write it with its domain"
    elif _NUMBER.fullmatch(labels[-1]):
        text = "must not end like an address; use a name outside"
    elif _inside(labels, view.super_domain) is not None:
        text = "is of a domain that is kept for what this cluster runs on; use a name outside"
    return Problem("external-name", _PATH, text) if text else None
