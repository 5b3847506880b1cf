"""Every leaf that the API server knows has a verdict: a new minor cannot slip a field through."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import orjson
import pytest

from kubeio.client import Client
from syncer.leaves import Allow, Each, Fields, Free, Only, Verdict
from syncer.special.pod_spec import POD_SPEC
from syncer.special.services import SERVICE_SPEC
from tests.support.controlplane import ControlPlane

CORE = "io.k8s.api.core.v1."


@pytest.fixture(scope="module")
def definitions(super_plane: ControlPlane) -> Mapping[str, Any]:
    """The schema that a real API server publishes."""
    import asyncio  # noqa: PLC0415 - only here

    async def fetch() -> Mapping[str, Any]:
        async with Client(super_plane.endpoint, deadline=60) as client:
            return orjson.loads(await client.raw("GET", "/openapi/v2"))["definitions"]

    return asyncio.run(fetch())


def without_verdict(
    definitions: Mapping[str, Any], name: str, table: Mapping[str, Verdict], path: str
) -> Iterator[str]:
    """Yield the paths that the schema has and the table lacks, or treats as another shape."""
    for field, schema in definitions[name].get("properties", {}).items():
        where = f"{path}.{field}"
        verdict = table.get(field)
        if verdict is None:
            yield f"{where}: no verdict"
            continue
        inner = _reference(schema.get("items", schema))
        properties = definitions[inner].get("properties") if inner else None
        if isinstance(verdict, Fields | Each):
            if isinstance(verdict, Each) != (schema.get("type") == "array"):
                yield f"{where}: another shape"
            elif properties is None:
                yield f"{where}: no object"
            else:
                yield from without_verdict(definitions, inner, verdict.fields, where)
        elif isinstance(verdict, Allow | Only) and properties is not None:
            yield f"{where}: an object that is let through as a whole"
        elif isinstance(verdict, Free) and "additionalProperties" not in schema:
            yield f"{where}: no free map"


def _reference(schema: Mapping[str, Any]) -> str:
    return str(schema.get("$ref", "")).removeprefix("#/definitions/")


@pytest.mark.parametrize(("name", "table"), [("PodSpec", POD_SPEC), ("ServiceSpec", SERVICE_SPEC)])
def test_every_leaf_has_a_verdict(definitions, name, table):
    assert list(without_verdict(definitions, CORE + name, table, "spec")) == []


@pytest.mark.parametrize("name", ["PodSpec", "ServiceSpec"])
def test_the_census_finds_a_leaf_without_one(definitions, name):
    found = list(without_verdict(definitions, CORE + name, {}, "spec"))
    assert len(found) == len(definitions[CORE + name]["properties"])
