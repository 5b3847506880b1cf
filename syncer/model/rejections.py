"""Why a tenant object does not go down: a rule, a place in the object, and what would do instead.

Pure. A rejection is written for the tenant: it names nothing of the super cluster.
"""

import re
from dataclasses import dataclass

import structlog

REASON = "SyncRejected"
"""Reason of the Event that tells the tenant."""


STUMBLES = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    RuntimeError,
    TypeError,
    ValueError,
)
"""What code raises that meets an object of a shape that no honest API hands out.

Whatever runs for all tenants catches it, so that one tenant's object ends nobody else's work.
"""

_log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong with an object, or was changed on its way down."""

    rule: str
    """Identifier of the rule, stable across versions."""
    path: str
    """Where in the tenant's object."""
    text: str
    """What is wrong there, and what would do: half a sentence each, joined by a semicolon."""

    def __str__(self) -> str:
        """Return the sentence that the tenant reads."""
        return f"{self.path} {self.text} (rule {self.rule})"


_POD_SECURITY = re.compile(r'violates PodSecurity "([a-z]+):[^"]*": (.*)', re.DOTALL)


def pod_security(said: str) -> Problem | None:
    """Return what the super cluster's pod security admission refused, None when it was another."""
    found = _POD_SECURITY.search(said)
    if found is None:
        return None
    text = f"violates the level {found[1]} of pod security: {found[2]}; change that"
    return Problem("pod-security", "spec", text)


class RejectedError(Exception):
    """The object must not go down as it is; carries every problem found."""

    def __init__(self, *problems: Problem) -> None:
        super().__init__("; ".join(str(problem) for problem in problems))
        self.problems = problems


class RefusedError(RejectedError):
    """The object may not be below at all: what went down before is taken away, too.

    For what a policy does not offer, and for what would reach others. Any other rejection leaves
    the twin as it was let through.
    """


class UnplacedError(Exception):
    """No node is left for a pod, by what its tenant itself says of its nodes; it waits above."""


def malformed(stumble: Exception) -> RejectedError:
    """Return the rejection of an object that code stumbled over, for its tenant to correct."""
    _log.warning("tenant.malformed", problem=repr(stumble))
    text = "has not the shape that the API gives it; correct the object"
    return RejectedError(Problem("malformed", "spec", text))
