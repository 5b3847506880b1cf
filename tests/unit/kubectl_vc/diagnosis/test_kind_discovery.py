"""Lookup of kinds in an API server's aggregated discovery."""

import json
from typing import Any

import pytest

from kubectl_vc.diagnosis.kind_discovery import find_object
from kubectl_vc.diagnosis.object_kinds import ObjectName, parse_object_name
from kubectl_vc.output.cli_errors import UsageError
from tenancy.resources import PODS, Resource


def describe_kind(plural: str, kind: str, *short: str, scope: str = "Namespaced") -> dict[str, Any]:
    """Return one resource of an APIGroupDiscoveryList."""
    return {
        "resource": plural,
        "responseKind": {"kind": kind},
        "scope": scope,
        "shortNames": list(short),
    }


ANSWER = {
    "items": [
        {
            "metadata": {"name": "gateway.example.com"},
            "versions": [
                {"version": "v1", "resources": [describe_kind("routes", "Route", "rt")]},
                {"version": "v1beta1", "resources": [describe_kind("routes", "Route")]},
            ],
        },
        {
            "metadata": {"name": "other.example.com"},
            "versions": [
                {
                    "version": "v2",
                    "resources": [
                        describe_kind("routes", "Route"),
                        describe_kind("classes", "Class", scope="Cluster"),
                    ],
                },
            ],
        },
    ]
}
ROUTE = Resource("gateway.example.com", "v1", "routes", "Route")


class StubServer:
    """An API server's discovery."""

    async def raw(self, *_: Any, **__: Any) -> bytes:
        return json.dumps(ANSWER).encode()


@pytest.mark.parametrize(
    ("text", "resource"),
    [
        ("route/a", ROUTE),
        ("Routes/a", ROUTE),
        ("rt/a", ROUTE),
        ("route.gateway.example.com/a", ROUTE),
        ("routes.v1.gateway.example.com/a", ROUTE),
        ("route.other.example.com/a", Resource("other.example.com", "v2", "routes", "Route")),
        (
            "class/a",
            Resource("other.example.com", "v2", "classes", "Class", namespaced=False),
        ),
    ],
)
async def test_kind_is_found_by_each_spelling(text, resource):
    client: Any = StubServer()
    assert await find_object(client, parse_object_name(text)) == ObjectName(resource, "a")


async def test_built_in_kind_needs_no_request():
    client: Any = None
    assert await find_object(client, parse_object_name("po/a")) == ObjectName(PODS, "a")


@pytest.mark.parametrize("text", ["widget/a", "route.none.example.com/a", "routes.v3/a"])
async def test_unknown_kind_is_a_usage_error(text):
    client: Any = StubServer()
    with pytest.raises(UsageError, match="is not known in the virtual cluster"):
        await find_object(client, parse_object_name(text))
