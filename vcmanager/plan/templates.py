"""Rendering of templates and values into manifests.

Owns the only jinja2 environment. Must not know the purpose of the objects. Hazard: a value from a
VirtualCluster is arbitrary text. Every expression is written as one JSON scalar or JSON collection,
so that no text can end its own quotes. The result is parsed again and compared with what the
template may make.
"""

import functools
import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, NoReturn

import jinja2
import jinja2.sandbox
import yaml

Manifest = dict[str, Any]
TemplateShape = frozenset[tuple[str, str]]
"""Kind and name of each object that a template makes."""

_SURROGATE_PAIR = re.compile(r"\\u(d[89ab][0-9a-f]{2})\\u(d[c-f][0-9a-f]{2})")


class TemplateError(ValueError):
    """A template cannot be rendered. The message names it and the reason."""


def render_template(
    template: str, values: Mapping[str, Any], *, name: str, shape: TemplateShape
) -> list[Manifest]:
    """Return the objects that a template makes of the values.

    `name` is the template's name in messages. `shape` lists exactly the objects that it must make.
    The objects are shared between calls with the same values: never change them. Raises
    TemplateProblemError.
    """
    try:
        text = _compile_template(template).render(values)
    except jinja2.TemplateError as problem:
        raise TemplateError(f"the template {name} cannot be rendered: {problem}") from None
    return list(_parse_manifests(text, shape, name))


@functools.lru_cache(maxsize=512)
def _parse_manifests(text: str, shape: TemplateShape, name: str) -> tuple[Manifest, ...]:
    """Parse each rendered text only once, because parsing takes ten times as long as rendering."""
    try:
        documents = list(yaml.load_all(text, Loader=_TemplateLoader))
    except yaml.YAMLError as problem:
        raise TemplateError(f"the template {name} does not render to YAML: {problem}") from None
    made = [document for document in documents if document is not None]
    _check_shape(made, shape, name)
    return tuple(made)


def encode_scalar(value: Any) -> str:
    """Return a value as YAML that is also JSON: on one line, quoted, ASCII only.

    JSON writes characters beyond the basic plane as two surrogates, which YAML reads as two broken
    characters. They are joined into the one escape that YAML knows.
    """
    if isinstance(value, jinja2.Undefined):
        str(value)  # a strict undefined raises here, with the name in its message
    text = json.dumps(value, ensure_ascii=True, allow_nan=False)
    return _SURROGATE_PAIR.sub(_join_surrogates, text)


def build_shape(*pairs: tuple[str, str]) -> TemplateShape:
    """Return the shape with these kinds and names."""
    return frozenset(pairs)


class _TemplateLoader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """A safe loader that refuses a key written twice, which YAML forbids and PyYAML allows."""


def _construct_mapping(loader: _TemplateLoader, node: yaml.MappingNode) -> dict[Any, Any]:
    pairs = [(loader.construct_object(key, deep=True), key) for key, _ in node.value]
    seen: set[Any] = set()
    for key, where in pairs:
        if key in seen:
            raise yaml.constructor.ConstructorError(
                None, None, f"the key {key!r} is duplicated", where.start_mark
            )
        seen.add(key)
    made: dict[Any, Any] = loader.construct_mapping(node, deep=True)
    return made


_TemplateLoader.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, _construct_mapping)


@functools.lru_cache(maxsize=64)
def _compile_template(text: str) -> jinja2.Template:
    return _create_environment().from_string(text)


@functools.cache
def _create_environment() -> jinja2.Environment:
    return jinja2.sandbox.ImmutableSandboxedEnvironment(
        undefined=jinja2.StrictUndefined,
        finalize=encode_scalar,
        autoescape=False,
        keep_trailing_newline=True,
    )


def _join_surrogates(halves: re.Match[str]) -> str:
    high, low = (int(half, 16) for half in halves.groups())
    return f"\\U{0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00):08x}"


def _check_shape(made: Iterable[Any], shape: TemplateShape, name: str) -> None:
    found: set[tuple[str, str]] = set()
    for document in made:
        if not isinstance(document, dict):
            _raise_template_error(
                name, f"renders {type(document).__name__} where an object was expected"
            )
        pair = (str(document.get("kind")), str((document.get("metadata") or {}).get("name")))
        if pair in found:
            _raise_template_error(name, f"renders {pair[0]} {pair[1]} twice")
        found.add(pair)
    if found != shape:
        extra = ", ".join(f"{kind} {named}" for kind, named in sorted(found - shape))
        missing = ", ".join(f"{kind} {named}" for kind, named in sorted(shape - found))
        _raise_template_error(
            name, f"renders {extra or 'nothing'} in addition, and lacks {missing or 'nothing'}"
        )


def _raise_template_error(name: str, what: str) -> NoReturn:
    raise TemplateError(f"the template {name} {what}")
