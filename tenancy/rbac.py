"""One row of a component's access table, from which its RBAC files are generated; pure.

A table lists what a component may do and why; nothing else grants it anything. A wildcard is
refused where it is written, because a file full of stars passes every review.
"""

from dataclasses import dataclass

WILDCARD = "*"


class AccessProblemError(ValueError):
    """A row cannot stand; the message says which and why."""


@dataclass(frozen=True, slots=True)
class Access:
    """What one component may do with some resources of one API group."""

    group: str
    """API group, empty for the core group."""
    resources: tuple[str, ...]
    """Plurals, with a slash for a subresource: `pods/log`."""
    verbs: tuple[str, ...]
    why: str
    """One sentence for the reader of the generated file."""
    names: tuple[str, ...] = ()
    """Only objects of these names; empty: all."""
    namespaced: bool = False
    """Grant it in the components' own namespace only (a Role), not cluster-wide."""
    when: tuple[str, tuple[str, ...]] | None = None
    """A value of the chart and what it must be one of, such as `("agent.upstream", ("auto",))`;
    None: whatever the values are."""

    def __post_init__(self) -> None:
        """Refuse rows that grant too much or nothing."""
        for field in (self.resources, self.verbs):
            if not field:
                raise AccessProblemError(f"{self} names no resources or no verbs; name them")
            if WILDCARD in "".join(field):
                raise AccessProblemError(f"{self} has a wildcard; spell out what is needed")
        if WILDCARD in self.group or not self.why.strip():
            raise AccessProblemError(f"{self} needs one API group and a reason (why)")
        if self.when is not None and not (self.when[0] and self.when[1]):
            raise AccessProblemError(f"{self} hangs on a value without a name or without choices")
        if self.names and "create" in self.verbs:
            raise AccessProblemError(
                f"{self} limits create to names, which RBAC cannot do; give create its own row"
            )
