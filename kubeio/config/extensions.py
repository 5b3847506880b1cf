"""Extension of a kubeconfig's context that `kubectl vc connect` writes. Pure."""

from collections.abc import Mapping
from typing import Any

CONNECTION_EXTENSION = "kubectl-vc"


def read_extension(context: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the fields of the extension of a context. None without one."""
    listed = context.get("extensions")
    for each in listed if isinstance(listed, list) else ():
        if isinstance(each, dict) and each.get("name") == CONNECTION_EXTENSION:
            fields = each.get("extension")
            return fields if isinstance(fields, dict) else {}
    return None
