"""Rejections of tenant objects: the rule, the field, and what to do.

Pure. A rejection is written for the tenant and must not name anything of the super cluster.
"""

import re
from dataclasses import dataclass

SYNC_REJECTED = "SyncRejected"
"""Reason of the Event for the tenant."""


MALFORMED_OBJECT_ERRORS = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    RuntimeError,
    TypeError,
    ValueError,
)
"""Exceptions of code that meets an object of a shape which no honest API server returns.

Code that runs for all tenants must catch them. Otherwise one tenant's object stops the work for all
tenants."""


@dataclass(frozen=True, slots=True)
class RejectionProblem:
    """One field of an object that is rejected, or was changed by the sync."""

    rule: str
    """Identifier of the rule. It is stable across versions."""
    path: str
    """Path in the tenant's object."""
    text: str
    """The problem, which continues the path, and what to do, without the last full stop."""

    def __str__(self) -> str:
        """Return the sentence for the tenant."""
        return f"{self.path} {self.text} (rule {self.rule})."


_POD_SECURITY = re.compile(r'violates PodSecurity "([a-z]+):[^"]*": (.*)', re.DOTALL)


def parse_pod_security(said: str) -> RejectionProblem | None:
    """Return the violation that the super cluster's pod security admission refused.

    None if the refusal came from elsewhere.
    """
    found = _POD_SECURITY.search(said)
    if found is None:
        return None
    text = f"violates the level {found[1]} of pod security: {found[2]}. Change that"
    return RejectionProblem("pod-security", "spec", text)


class RejectedError(Exception):
    """Rejection of an object as it is, with every problem found."""

    def __init__(self, *problems: RejectionProblem) -> None:
        super().__init__(" ".join(str(problem) for problem in problems))
        self.problems = problems


class ForbiddenObjectError(RejectedError):
    """Refusal of an object in the super cluster. An existing twin is deleted.

    Used for an object that a policy does not offer, and for an object that would affect other
    tenants. Any other rejection leaves the twin as it was last accepted.
    """


class UnschedulableError(Exception):
    """Error: the tenant's own labels, taints and cordons leave no node for a pod, which waits."""


def build_malformed_rejection(stumble: Exception) -> RejectedError:
    """Return the rejection of an object that code failed on, for its tenant to correct."""
    import structlog  # noqa: PLC0415 - `kubectl vc policy check` imports this module without logs

    structlog.get_logger(__name__).warning("tenant.malformed", problem=repr(stumble))
    text = "does not have the structure of the API. Correct the object"
    return RejectedError(RejectionProblem("malformed", "spec", text))
