"""Rendering of the pages.

Hazard: names and messages are tenants' text. Each value must pass through autoescape and the escape
of control characters. Otherwise a tenant could put a script into the administrator's page, or
reverse the order of its text.
"""

from pathlib import Path
from typing import Any

import jinja2

from kubectl_vc.ui.object_kinds import KINDS
from kubectl_vc.ui.urls import Urls
from tenancy.control_characters import escape_control_characters

FOLDER = Path(__file__).parent
REFRESH_SECONDS = 2
"""Interval in seconds in which an open page fetches its live part again."""


class PageTemplates:
    """The templates with the URLs of one run of the server."""

    def __init__(self, urls: Urls) -> None:
        """Load the environment. Templates are compiled at their first use."""
        self._environment = jinja2.Environment(
            loader=jinja2.FileSystemLoader(FOLDER / "templates"),
            autoescape=True,
            undefined=jinja2.StrictUndefined,
            finalize=_finalize,
            trim_blocks=True,
            lstrip_blocks=True,
            auto_reload=False,
        )
        self._environment.globals |= {
            "urls": urls,
            "kinds": KINDS,
            "refresh_seconds": REFRESH_SECONDS,
        }

    def render(self, name: str, **values: Any) -> str:
        """Return a page, or the live part of one."""
        return self._environment.get_template(name).render(values)


def _finalize(value: Any) -> Any:
    # Markup is a str as well. Its type must stay, or it would be escaped twice.
    if isinstance(value, str):
        return type(value)(escape_control_characters(value))
    return "" if value is None else value
