"""Ingresses: rules and classes to the super cluster, addresses back to the tenant.

Pure. Owns the leaves that are synced, the allowed classes, and the part of the status that is
synced back. Services and Secrets keep their names in the super namespace, so references need no
translation. Must not know how the Secrets are synced.

Hazard: a backend that is no Service, or an annotation that only one controller understands, must
not be synced. An ingress controller of the super cluster serves all tenants and would apply it.
"""

from collections.abc import Collection, Mapping
from typing import Any

from kubeio import Object
from syncer.model import object_meta
from syncer.model.field_rules import (
    ALLOW_SCALAR,
    BuiltField,
    FieldRule,
    FieldWalk,
    ListOfObjects,
    ObjectFields,
    RefuseField,
)
from syncer.model.rejections import ForbiddenObjectError, RejectedError, RejectionProblem
from syncer.model.replace_update import build_replacement
from syncer.model.tenant_view import TenantView
from syncer.model.unstructured import as_mapping, as_mappings
from syncer.rules.network import ingress_hosts, ingress_paths
from syncer.rules.network.attachments import network_limits
from tenancy.policies import WILDCARD_NAME

INGRESS_CLASS = "IngressClass"

_BACKEND = ObjectFields(
    {
        "resource": RefuseField("ingress-backend", "is not offered. Use a service as backend"),
        "service": ObjectFields(
            {
                "name": ALLOW_SCALAR,
                "port": ObjectFields({"name": ALLOW_SCALAR, "number": ALLOW_SCALAR}),
            }
        ),
    }
)

INGRESS_SPEC: Mapping[str, FieldRule] = {
    "defaultBackend": _BACKEND,
    "ingressClassName": BuiltField(
        "ingresses",
        "must be a class that your cluster shows. Without a value it is the default class, if every"
        " class is offered",
    ),
    "rules": ListOfObjects(
        {
            "host": BuiltField(
                "ingress_hosts",
                "must be a host that no other tenant uses, in a domain that is offered to your"
                " cluster",
            ),
            "http": ObjectFields(
                {
                    "paths": ListOfObjects(
                        {"backend": _BACKEND, "path": ALLOW_SCALAR, "pathType": ALLOW_SCALAR}
                    )
                }
            ),
        }
    ),
    "tls": ListOfObjects({"hosts": ALLOW_SCALAR, "secretName": ALLOW_SCALAR}),
}
INGRESS_STATUS: Mapping[str, FieldRule] = {
    "loadBalancer": ObjectFields(
        {
            "ingress": ListOfObjects(
                {
                    "hostname": ALLOW_SCALAR,
                    "ip": ALLOW_SCALAR,
                    "ports": ListOfObjects(
                        {"error": ALLOW_SCALAR, "port": ALLOW_SCALAR, "protocol": ALLOW_SCALAR}
                    ),
                }
            )
        }
    ),
}
"""Fields that are synced back to the tenant."""


def build_ingress(tenant_ingress: Mapping[str, Any], view: TenantView) -> Object:
    """Return the twin of an Ingress. Raises RejectedError."""
    if view.policy.sync.ingresses != "Allow":
        text = "is not offered to this cluster. Use a Service of another type"
        raise ForbiddenObjectError(RejectionProblem("ingresses", "spec", text))
    unreachable = network_limits.find_ingress_problem(view)
    if unreachable is not None:
        raise ForbiddenObjectError(unreachable)
    metadata, said = tenant_ingress["metadata"], tenant_ingress.get("spec") or {}
    walk = FieldWalk()
    spec = walk.walk_fields(said, INGRESS_SPEC, "spec")
    problems = walk.problems or list(ingress_hosts.find_malformed(said))
    if problems:
        raise RejectedError(*problems)
    problems = [
        *ingress_hosts.find_problems(said, metadata, view),
        *ingress_paths.find_problems(said, metadata, view),
    ]
    if problems:
        raise ForbiddenObjectError(*problems)
    for rule, own in zip(spec.get("rules") or (), said.get("rules") or (), strict=True):
        if own.get("host"):
            rule["host"] = own["host"]
    ingress_hosts.write_certificate_hosts(spec)
    name = _resolve_class(said.get("ingressClassName"), view)
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "Ingress",
        "metadata": object_meta.build_super_metadata(
            "Ingress",
            view.tenant,
            metadata,
            super_namespace=view.get_super_namespace(metadata["namespace"]),
            passing=view.policy.metadata,
        ),
        "spec": {**spec, "ingressClassName": name} if name else spec,
    }


def _resolve_class(name: object, view: TenantView) -> str:
    """Return the class that is synced. Empty leaves the choice to the super cluster's default."""
    if isinstance(name, str) and name and view.shows_class(INGRESS_CLASS, name):
        return name
    if not name and WILDCARD_NAME in view.policy.sync.ingress_classes.names:
        return ""
    text = "is not offered to this cluster. Use one that `kubectl get ingressclasses` shows"
    problem = RejectionProblem("ingress-class", "spec.ingressClassName", text)
    if isinstance(name, str) and name and not view.has_class(INGRESS_CLASS, name):
        raise RejectedError(problem)  # the class may just be recreated
    raise ForbiddenObjectError(problem)


def build_change(live: Mapping[str, Any], twin: Object) -> Object | None:
    """Return the Ingress to put in place of the live one, or None.

    A default class that the super cluster assigned stays while the tenant names none.
    """
    given = as_mapping(live.get("spec")).get("ingressClassName")
    if given and "ingressClassName" not in twin["spec"]:
        twin = {**twin, "spec": {**twin["spec"], "ingressClassName": given}}
    return build_replacement(live, twin, table=INGRESS_SPEC, field="spec")


def build_status_up(
    tenant_ingress: Mapping[str, Any],
    live: Mapping[str, Any],
    _: Collection[str] = (),
) -> Object | None:
    """Return the merge patch of the tenant's status, or None. An Ingress has no conditions."""
    own = as_mapping(tenant_ingress.get("status")).get("loadBalancer") or {}
    there = (
        FieldWalk()
        .walk_fields(live.get("status") or {}, INGRESS_STATUS, "status")
        .get("loadBalancer")
    )
    if own == (there or {}):
        return None
    changed = object_meta.build_merge_patch(as_mapping(own), there or {})
    return {
        "metadata": {"uid": tenant_ingress["metadata"]["uid"]},
        "status": {"loadBalancer": changed},
    }


def get_class(tenant_ingress: Mapping[str, Any]) -> str:
    """Return the class that an Ingress names. Empty if it names none."""
    name = as_mapping(tenant_ingress.get("spec")).get("ingressClassName")
    return name if isinstance(name, str) else ""


def list_secrets(tenant_ingress: Mapping[str, Any]) -> frozenset[str]:
    """Return the Secrets that an Ingress names. Empty if it is malformed."""
    found = as_mappings(as_mapping(tenant_ingress.get("spec")).get("tls"))
    names = (item.get("secretName") for item in found)
    return frozenset(name for name in names if isinstance(name, str) and name)
