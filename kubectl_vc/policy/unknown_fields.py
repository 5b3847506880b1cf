"""Fields of a document that a typed view does not have. Pure."""

from collections.abc import Iterator
from typing import Any

import msgspec.inspect


def iterate_unknown_fields(value: Any, view: type, path: str) -> Iterator[str]:
    """Yield the path of each unknown field. Wrong types are left to the conversion."""
    yield from _iterate(value, msgspec.inspect.type_info(view), path)


def _iterate(value: Any, kind: msgspec.inspect.Type, path: str) -> Iterator[str]:
    if isinstance(kind, msgspec.inspect.Metadata):
        yield from _iterate(value, kind.type, path)
    elif isinstance(kind, msgspec.inspect.UnionType):
        for each in kind.types:
            yield from _iterate(value, each, path)
    elif isinstance(kind, msgspec.inspect.StructType) and isinstance(value, dict):
        known = {field.encode_name: field.type for field in kind.fields}
        for name, inner in value.items():
            if name not in known:
                yield f"{path}.{name}"
            else:
                yield from _iterate(inner, known[name], f"{path}.{name}")
    elif isinstance(kind, msgspec.inspect.DictType) and isinstance(value, dict):
        for name, inner in value.items():
            yield from _iterate(inner, kind.value_type, f"{path}.{name}")
    elif isinstance(kind, msgspec.inspect.CollectionType) and isinstance(value, list):
        for number, inner in enumerate(value):
            yield from _iterate(inner, kind.item_type, f"{path}[{number}]")
