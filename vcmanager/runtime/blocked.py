"""Exception of a reconcile that cannot continue: a condition, a reason and a message.

Owns the vocabulary between phases and the status. Hazard: readers of the message may see only the
VirtualCluster. The message must name the field or object and what to do.
"""


class PhaseBlocked(Exception):  # noqa: N818 - a state to report, not a failure of the manager
    """A phase cannot go on."""

    def __init__(
        self,
        reason: str,
        message: str,
        *,
        condition: str | None = None,
        needs_admin: bool = False,
        retry_after: float | None = None,
    ) -> None:
        """Store the parts. `reason` is CamelCase. `needs_admin`: waiting does not help.

        `condition` is the type of the condition to set. None: the condition of the phase.
        """
        super().__init__(message)
        self.reason = reason
        self.message = message
        self.condition = condition
        self.needs_admin = needs_admin
        self.retry_after = retry_after
