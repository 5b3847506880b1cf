"""One section of a page that several programs write, each its own. Pure.

A section begins with its `## Title` and ends before the next one. Hazard: a program that writes the
whole page would take the others' words away.
"""

from __future__ import annotations

import re

_HEADS = re.compile(r"^(?=## )", re.MULTILINE)


def put(page: str, title: str, body: str) -> str:
    """Return the page with this body under `## Title`, where it stood or at the end."""
    section = f"## {title}\n\n{body.strip()}\n"
    head, *sections = _HEADS.split(page)
    for number, found in enumerate(sections):
        if found.splitlines()[0] == f"## {title}":
            sections[number] = section
            break
    else:
        sections.append(section)
    return "\n".join(part.strip() + "\n" for part in (head, *sections) if part.strip())


def get(page: str, title: str) -> str:
    """Return the body under `## Title`. Empty if the page has no such section."""
    for found in _HEADS.split(page)[1:]:
        first, _, body = found.partition("\n")
        if first == f"## {title}":
            return body.strip()
    return ""
