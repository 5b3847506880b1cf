"""Tokens of Secrets in a tenant, which have no end, before their old signing key is dropped.

Must not read a token: the metadata of the Secrets suffices. Hazard: the tenant controls these
Secrets, in number and size. Pages are small, and a failed read holds the drop.
"""

from datetime import datetime

from kubeio import errors
from kubeio.api.client import Client
from tenancy.resources import SECRETS
from vcmanager.runtime import metadata_pages
from vcmanager.runtime.metadata_pages import TooManyPagesError

_TYPE_SELECTOR = "type=kubernetes.io/service-account-token"
_LAST_USED = "kubernetes.io/legacy-token-last-used"
"""Label with a date, which the API server writes once per day of use."""
_PAGE_SIZE = 50
_MAX_PAGES = 20
_MAX_LENGTH = 500
"""Length of a message with an error of the tenant's API server, in characters."""
_MAX_SHOWN = 3
"""Number of Secrets that a message names. Further ones are only counted."""


async def find_hold(tenant_client: Client | None, settled: datetime | None) -> str:
    """Return which token Secrets are older than the new signing key, or an empty string.

    `settled` is when every program had the new key. A token of a Secret from before may be of the
    old one. The controller manager writes the token once.
    """
    if tenant_client is None or settled is None:
        return "the API of the tenant is not ready, so its token Secrets cannot be listed"
    old: list[str] = []
    listed = metadata_pages.iterate_metadata(
        tenant_client,
        SECRETS,
        page_size=_PAGE_SIZE,
        max_pages=_MAX_PAGES,
        field_selector=_TYPE_SELECTOR,
    )
    try:
        async for metadata in listed:
            if datetime.fromisoformat(metadata["creationTimestamp"]) <= settled:
                used = (metadata.get("labels") or {}).get(_LAST_USED)
                last = f"last used on {used}" if used else "never seen in use"
                old.append(f"{metadata['namespace']}/{metadata['name']} ({last})")
    except TooManyPagesError:
        more = f"the tenant has more than {_PAGE_SIZE * _MAX_PAGES} token Secrets"
        return _describe(old) or more
    except errors.KubeError as problem:
        return f"the token Secrets of the tenant cannot be listed ({problem})"[:_MAX_LENGTH]
    return _describe(old)


def _describe(old: list[str]) -> str:
    if not old:
        return ""
    more = f" and {len(old) - _MAX_SHOWN} more" if len(old) > _MAX_SHOWN else ""
    return "Secrets of the tenant have tokens of the old key: " + ", ".join(old[:_MAX_SHOWN]) + more
