"""Table of the reference pages: path and generator of each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from tools.reference import (
    command_line,
    container_images,
    custom_resources,
    event_reasons,
    metric_families,
    network_ports,
    permissions,
    sync_rules,
    wellknown_names,
)

FOLDER = Path("docs/reference")

GENERATORS: Mapping[str, Callable[[], str]] = {
    "cli.md": command_line.build_page,
    "custom-resources.md": custom_resources.build_page,
    "events.md": event_reasons.build_page,
    "images.md": container_images.build_page,
    "metrics.md": metric_families.build_page,
    "permissions.md": permissions.build_page,
    "ports.md": network_ports.build_page,
    "rules.md": sync_rules.build_page,
    "conditions.md": wellknown_names.build_conditions_page,
    "labels-and-annotations.md": wellknown_names.build_keys_page,
}


def build_pages() -> dict[Path, str]:
    """Return each page: its path relative to the repository and its content."""
    return {FOLDER / name: build() for name, build in GENERATORS.items()}
