"""Claims of a pod for devices: the fields of the pod, and the claims that they name.

Pure. A claim of a template is created by a controller of the tenant, which records its name in the
pod's status. The super pod names that claim directly, so the super cluster needs no template. Must
not know how a ResourceClaim is synced.

Hazard: the super pod must name claims only by `resourceClaimName`. From a template, the super
cluster would create a second claim that no rule has checked.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from syncer.model.field_rules import ALLOW_SCALAR, FieldRule, ListOfObjects, ObjectFields
from syncer.model.rejections import RejectionProblem
from syncer.model.unstructured import as_mapping, as_mappings
from tenancy import names

RULE = "resource-claims"
CLASS_PREFIX = "deviceclass.resource.kubernetes.io/"
"""Prefix of a DeviceClass as a resource of containers. A super cluster of 1.36 or later allocates
devices of any class by it, without a claim."""
_FIELD = "resourceClaims"
_CONTAINER_LISTS = ("initContainers", "containers")
_POD_CLAIMS = ListOfObjects(
    {
        "name": ALLOW_SCALAR,
        "resourceClaimName": ALLOW_SCALAR,
        "resourceClaimTemplateName": ALLOW_SCALAR,
    }
)
_CONTAINER_CLAIMS = ListOfObjects({"name": ALLOW_SCALAR, "request": ALLOW_SCALAR})
_MAX_SHOWN_CHARACTERS = 60


class PodClaim(NamedTuple):
    """One entry of `spec.resourceClaims`."""

    name: str
    """Name of the entry, by which containers refer to it."""
    claim: str
    """Name of the ResourceClaim. Empty until a controller of the tenant has created it."""
    is_generated: bool
    """Whether the claim is created from a template, for this pod alone."""


def open_fields(table: Mapping[str, FieldRule]) -> Mapping[str, FieldRule]:
    """Return the fields of a pod's table that name claims, with verdicts that let them pass."""
    found: dict[str, FieldRule] = {_FIELD: _POD_CLAIMS}
    for name in _CONTAINER_LISTS:
        containers = table[name]
        assert isinstance(containers, ListOfObjects)  # noqa: S101 - the table says so
        resources = containers.fields["resources"]
        assert isinstance(resources, ObjectFields)  # noqa: S101 - the table says so
        opened = ObjectFields({**resources.fields, "claims": _CONTAINER_CLAIMS})
        found[name] = ListOfObjects({**containers.fields, "resources": opened})
    return found


def list_pod_claims(pod: Mapping[str, Any]) -> list[PodClaim]:
    """Return the claims of a tenant pod. Claims of templates are found in its status."""
    statuses = as_mappings(as_mapping(pod.get("status")).get("resourceClaimStatuses"))
    generated = {str(each.get("name")): each.get("resourceClaimName") for each in statuses}
    found = []
    for each in as_mappings(as_mapping(pod.get("spec")).get(_FIELD)):
        name, given = str(each.get("name")), each.get("resourceClaimName")
        is_generated = not given
        claim = generated.get(name) if is_generated else given
        found.append(PodClaim(name, claim if isinstance(claim, str) else "", is_generated))
    return found


def find_problems(spec: Mapping[str, Any]) -> list[RejectionProblem]:
    """Return a problem for each entry of a copied spec that names no claim, or none that exists."""
    problems = []
    for index, each in enumerate(as_mappings(spec.get(_FIELD))):
        path = f"spec.{_FIELD}[{index}]"
        given = [each.get(name) for name in ("resourceClaimName", "resourceClaimTemplateName")]
        if sum(bool(value) for value in given) != 1:
            text = "must have either resourceClaimName or resourceClaimTemplateName. Correct it"
            problems.append(RejectionProblem("malformed", path, text))
        elif given[0] and not (isinstance(given[0], str) and names.is_dns_subdomain(given[0])):
            where = f"{path}, a reference to ResourceClaim {str(given[0])[:_MAX_SHOWN_CHARACTERS]},"
            text = "is not a valid object name. Correct it"
            problems.append(RejectionProblem("reference-name", where, text))
    return problems


def find_class_requests(spec: Mapping[str, Any]) -> list[RejectionProblem]:
    """Return a problem for each container of a copied spec that requests devices by their class.

    No rule checks the class, and no quota of devices counts the request.
    """
    text = (
        f"requests devices by a resource {CLASS_PREFIX}CLASS, which is not offered. Use a"
        " ResourceClaim"
    )
    return [
        RejectionProblem(RULE, f"spec.{kind}[{index}].resources", text)
        for kind in _CONTAINER_LISTS
        for index, container in enumerate(as_mappings(spec.get(kind)))
        if any(
            str(name).startswith(CLASS_PREFIX)
            for amounts in as_mapping(container.get("resources")).values()
            for name in as_mapping(amounts)
        )
    ]


def write_claims(spec: dict[str, Any], tenant_pod: Mapping[str, Any]) -> None:
    """Name each claim directly in the spec of a super pod, in place.

    Claims that do not exist yet are left out. The pod must not be created before they do.
    """
    if _FIELD in spec:
        spec[_FIELD] = [
            {"name": each.name, "resourceClaimName": each.claim}
            for each in list_pod_claims(tenant_pod)
            if each.claim
        ]
