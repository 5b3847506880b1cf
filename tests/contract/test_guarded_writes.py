"""Every write of the syncer goes through its `GuardedWriter`, or through a listed exception."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from syncer.safety import guarded_writer
from tools.testbed.artifacts import product

ROOT = product.REPOSITORY
VERBS = {"create", "replace", "patch", "apply", "delete"}
WRITER = "syncer.safety.guarded_writer"


def writes(text: str) -> list[str]:
    """Return the places where a module writes by a client, or passes such a method on."""
    return [ast.unparse(node) for node in ast.walk(ast.parse(text)) if _is_write(node)]


def _is_write(node: ast.AST) -> bool:
    match node:
        case ast.Call(func=ast.Attribute(attr="raw", value=value), args=[first, *_]):
            is_read = isinstance(first, ast.Constant) and first.value == "GET"
            return _is_client(value) and not is_read
        case ast.Attribute(attr=attr, value=value):
            return attr in VERBS and _is_client(value)
    return False


def _is_client(node: ast.expr) -> bool:
    return ast.unparse(node).rpartition(".")[2].endswith("client")


def modules() -> Iterator[tuple[str, Path]]:
    for path in sorted((ROOT / "syncer").rglob("*.py")):
        yield ".".join(path.relative_to(ROOT).with_suffix("").parts), path


def exceptions() -> set[str]:
    """Return the modules that the writer's docstring lists."""
    return set(re.findall(r"^- `([\w.]+)`", guarded_writer.__doc__ or "", re.MULTILINE))


@pytest.mark.parametrize(
    "text",
    [
        "await session.tenant_client.create(PODS, body)",
        "await self._super_client.patch(PODS, 'p', {})",
        "client = session.super_client\nawait client.delete(PODS, 'p')",
        "send = session.super_client.apply",
        "await client.raw('POST', '/api/v1/pods', body=body)",
    ],
)
def test_a_write_is_found(text):
    assert writes(text)


@pytest.mark.parametrize(
    "text",
    [
        "await session.tenant_client.get(PODS, 'p')",
        "await session.writer.create_tenant_object(key, PODS, body)",
        "await client.raw('GET', '/readyz')",
        "text.replace('a', 'b')",
    ],
)
def test_other_calls_are_no_writes(text):
    assert not writes(text)


def test_only_the_writer_and_its_listed_exceptions_write():
    found = {module for module, path in modules() if writes(path.read_text())}
    assert WRITER in found
    assert found - {WRITER} == exceptions()


def test_reconcilers_get_clients_that_only_read():
    """Then mypy refuses a write by them, whatever name a client has."""
    text = (ROOT / "syncer/tenants/session.py").read_text()
    for name in ("tenant_client", "super_client"):
        assert f"self.{name}: ObjectReader = " in text
