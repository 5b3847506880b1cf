"""Description of one object in sections, as `kubectl describe` prints it. Pure."""

from collections.abc import Mapping, Sequence

Field = tuple[str, str | Sequence[str]]
"""A title and its value. Several values stand in lines of their own."""
NONE_TEXT = "<none>"


def format_fields(fields: Sequence[Field]) -> str:
    """Return aligned lines `Title:  value`. A field without a value shows `<none>`."""
    width = max(len(title) for title, _ in fields) + 1
    lines = []
    for title, value in fields:
        values = [value] if isinstance(value, str) else list(value)
        shown = values or [NONE_TEXT]
        heads = [f"{title}:", *("" for _ in shown[1:])]
        lines += [
            f"{head.ljust(width)}  {text or NONE_TEXT}\n"
            for head, text in zip(heads, shown, strict=True)
        ]
    return "".join(lines)


def format_section(title: str, body: str) -> str:
    """Return a titled section with an indented body. An empty one is `<none>` in one line."""
    if not body.strip():
        return f"{title}:  {NONE_TEXT}\n"
    lines = body.strip("\n").splitlines()
    return f"{title}:\n" + "".join(f"  {line}".rstrip() + "\n" for line in lines)


def format_map(values: Mapping[str, object] | None, separator: str = "=") -> list[str]:
    """Return the lines of labels (`key=value`) or annotations (`key: value`), sorted."""
    return [f"{key}{separator}{values[key]}" for key in sorted(values or {})] if values else []
