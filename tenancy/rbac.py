"""Row of a component's access table, from which its RBAC files are generated. Pure.

A table lists the permissions of a component and the reason for each. No other source grants it
anything. A wildcard is refused in the table, because a file full of stars passes every review.
"""

from dataclasses import dataclass

WILDCARD = "*"


class InvalidRbacRuleError(ValueError):
    """A row is invalid. The message names the row and the reason."""


@dataclass(frozen=True, slots=True)
class RbacRule:
    """Permissions of one component for some resources of one API group."""

    group: str
    """API group, empty for the core group."""
    resources: tuple[str, ...]
    """Plurals, with a slash for a subresource: `pods/log`."""
    verbs: tuple[str, ...]
    reason: str
    """One sentence for the reader of the generated file."""
    names: tuple[str, ...] = ()
    """Names of the allowed objects. Empty: all."""
    namespaced: bool = False
    """Grant it in the components' own namespace only (a Role), not cluster-wide."""
    enabled_by: tuple[str, tuple[str, ...]] | None = None
    """A chart value and its allowed values, such as `("agent.upstream", ("auto",))`.

    None: the row does not depend on a value.
    """

    def __post_init__(self) -> None:
        """Raise AccessProblemError for a row that grants too much or nothing."""
        for field in (self.resources, self.verbs):
            if not field:
                raise InvalidRbacRuleError(f"{self} has no resources or no verbs. Add them")
            if WILDCARD in "".join(field):
                raise InvalidRbacRuleError(f"{self} has a wildcard. List each resource and verb")
        if WILDCARD in self.group or not self.reason.strip():
            raise InvalidRbacRuleError(f"{self} needs one API group and a reason (why)")
        if self.enabled_by is not None and not (self.enabled_by[0] and self.enabled_by[1]):
            raise InvalidRbacRuleError(
                f"{self} depends on a value without a name or without choices"
            )
        if self.names and "create" in self.verbs:
            raise InvalidRbacRuleError(
                f"{self} limits create to names, which RBAC cannot do. Use a separate row for"
                " create"
            )
