"""Writes YAML that every reader takes as it is meant.

Hazard: YAML has two versions of its mind. What one takes for a string the other takes for a number,
a truth or a date, and kubectl refuses a name that is one.
"""

import re
from typing import Any

import yaml

_AMBIGUOUS = re.compile(r"^(?:[yYnN]|[-+.]*[0-9][0-9a-zA-Z_.+-]*)$")


# In Python alone it takes ten times as long, and kubeconfigs are written at each look at a tenant.
class _Dumper(getattr(yaml, "CSafeDumper", yaml.SafeDumper)):  # type: ignore[misc]
    """Quotes strings such as `y`, `08`, `1e5` and `2026-1-2`."""


_Dumper.add_implicit_resolver("tag:virtual-cluster,quoted", _AMBIGUOUS, list("yYnN-+.0123456789"))


def to_yaml(value: Any, *, sort_keys: bool = False) -> str:
    """Return a value of JSON's kinds as one YAML document; no line is folded below 1,000 signs."""
    text: str = yaml.dump(
        value, Dumper=_Dumper, sort_keys=sort_keys, allow_unicode=True, width=1000
    )
    return text
