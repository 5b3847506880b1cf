"""Question to the API server whether the user may do something (SelfSubjectAccessReview)."""

from collections.abc import Mapping

from kubeio import errors
from kubeio.api.client import Client
from tenancy.resources import SELF_SUBJECT_ACCESS_REVIEWS


async def is_allowed(super_client: Client, attributes: Mapping[str, str]) -> bool:
    """Return whether the user may do it. Without an answer it is True: the real request decides."""
    question = {
        "apiVersion": SELF_SUBJECT_ACCESS_REVIEWS.api_version,
        "kind": SELF_SUBJECT_ACCESS_REVIEWS.kind,
        "spec": {"resourceAttributes": dict(attributes)},
    }
    try:
        answer = await super_client.create(SELF_SUBJECT_ACCESS_REVIEWS, question)
    except errors.ApiError:
        return True
    return bool((answer.get("status") or {}).get("allowed"))
