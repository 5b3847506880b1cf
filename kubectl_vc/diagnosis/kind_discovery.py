"""Kinds of an API server, by the names that kubectl knows.

Owns the lookup of a kind that the table of `object_kinds` does not have. Hazard: two groups can
have one kind. The caller must use the group of the result.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from kubectl_vc.diagnosis.object_kinds import KNOWN_KINDS, ObjectName, ObjectQuery
from kubectl_vc.output.cli_errors import UsageError
from kubeio.api.client import Client
from tenancy.resources import Resource

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
"""Media type of all groups in one answer. Kubernetes serves it since 1.30."""


async def find_object(client: Client, query: ObjectQuery) -> ObjectName:
    """Return the coordinates of an object.

    A kind of `object_kinds` needs no request. Raises UsageError if the API server has no such kind.
    """
    if query.resource is not None:
        return ObjectName(query.resource, query.name)
    answer: dict[str, Any] = msgspec.json.decode(
        await client.raw("GET", "/apis", accept=AGGREGATED)
    )
    head, _, group = query.kind.partition(".")
    for resource, spellings in _iterate_kinds(answer):
        groups = ("", resource.group, f"{resource.version}.{resource.group}")
        if head in spellings and group in groups:
            return ObjectName(resource, query.name)
    raise UsageError(
        f"the kind {query.kind!r} is not known in the virtual cluster. Use one of: {KNOWN_KINDS},"
        " or a kind of `kubectl api-resources`."
    )


def _iterate_kinds(answer: Mapping[str, Any]) -> Iterator[tuple[Resource, set[str]]]:
    """Yield each kind in its preferred version, with its spellings in lower case."""
    for group in answer.get("items") or ():
        seen = set[str]()
        for version in group.get("versions") or ():
            for each in version.get("resources") or ():
                plural, kind = str(each["resource"]), str((each.get("responseKind") or {})["kind"])
                if plural in seen:
                    continue
                seen.add(plural)
                short = [str(name) for name in each.get("shortNames") or ()]
                resource = Resource(
                    str(group["metadata"]["name"]),
                    str(version["version"]),
                    plural,
                    kind,
                    each.get("scope") == "Namespaced",
                )
                yield resource, {plural, kind.lower(), *short}
