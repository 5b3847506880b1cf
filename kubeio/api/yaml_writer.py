"""YAML writer with output that all YAML versions read alike.

Hazard: strings that YAML 1.1 or 1.2 reads as a number, a boolean or a date must be quoted.
Otherwise kubectl refuses a name that is read as one.
"""

import re
from typing import Any

import yaml

_AMBIGUOUS_SCALAR = re.compile(r"^(?:[yYnN]|[-+.]*[0-9][0-9a-zA-Z_.+-]*)$")


# The pure Python dumper takes ten times as long, and each reconcile of a tenant writes kubeconfigs.
class _Dumper(getattr(yaml, "CSafeDumper", yaml.SafeDumper)):  # type: ignore[misc]
    """YAML dumper that quotes strings such as `y`, `08`, `1e5` and `2026-1-2`."""


_Dumper.add_implicit_resolver(
    "tag:virtual-cluster,quoted", _AMBIGUOUS_SCALAR, list("yYnN-+.0123456789")
)


def to_yaml(value: Any, *, sort_keys: bool = False) -> str:
    """Return a JSON-compatible value as one YAML document.

    Lines under 1,000 characters are not folded.
    """
    text: str = yaml.dump(
        value, Dumper=_Dumper, sort_keys=sort_keys, allow_unicode=True, width=1000
    )
    return text
