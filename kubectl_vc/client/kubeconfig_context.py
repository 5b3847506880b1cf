"""Entries of the current context in the document of a kubeconfig. Pure."""

from typing import Any, Literal

from kubectl_vc.output.cli_errors import CliError


def find_current(document: Any, kind: Literal["cluster", "user"]) -> dict[str, Any]:
    """Return the fields of the cluster or the user of the current context. Raises CliError."""
    try:
        contexts = {each["name"]: each["context"] for each in document["contexts"]}
        entries = {each["name"]: each[kind] for each in document[f"{kind}s"]}
        found: dict[str, Any] = entries[contexts[document["current-context"]][kind]]
    except (KeyError, TypeError) as problem:
        raise CliError(
            f"the file is no kubeconfig with a current context and its {kind}. Use another file."
        ) from problem
    return found
