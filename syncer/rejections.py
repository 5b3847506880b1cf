"""Why a tenant object does not go down: a rule, a place in the object, and what would do instead.

Pure. A rejection is written for the tenant: it names nothing of the super cluster.
"""

from dataclasses import dataclass

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


class RejectedError(Exception):
    """The object must not go down as it is; carries every problem found."""

    def __init__(self, *problems: Problem) -> None:
        super().__init__("; ".join(str(problem) for problem in problems))
        self.problems = problems
