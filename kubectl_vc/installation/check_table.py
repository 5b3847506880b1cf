"""Form of the tables of `kubectl vc doctor`: checks in the order of the chain of links."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal

from kubectl_vc.installation.installation_facts import InstallationFacts

DoctorState = Literal["ok", "note", "wrong", "unknown"]


@dataclass(frozen=True, slots=True)
class LinkState:
    """The state of one link, with the next command."""

    state: DoctorState
    message: str
    next_command: str = ""


@dataclass(frozen=True, slots=True)
class LinkCheck:
    """One row: the name of a link, the facts that it needs, and the function that checks it."""

    name: str
    needs: tuple[str, ...]
    """Fields of `InstallationFacts`, with the prefix `tenant.` for those of the tenant."""
    find: Callable[[InstallationFacts], LinkState]


@dataclass(frozen=True, slots=True)
class CheckedLink:
    """The result of one row."""

    check: str
    state: DoctorState
    message: str
    next_command: str


def run_checks(facts: InstallationFacts, checks: Iterable[LinkCheck]) -> list[CheckedLink]:
    """Return the results of all rows, in their order."""
    found = []
    for check in checks:
        missing = [need for need in check.needs if _get_fact(facts, need) is None]
        if missing:
            kinds = ", ".join(need.removeprefix("tenant.").replace("_", " ") for need in missing)
            state = LinkState(
                "unknown",
                f"You may not read: {kinds}.",
                "Ask a platform administrator to run `kubectl vc doctor`.",
            )
        else:
            state = check.find(facts)
        found.append(CheckedLink(check.name, state.state, state.message, state.next_command))
    return found


def _get_fact(facts: InstallationFacts, need: str) -> object:
    if need.startswith("tenant."):
        return getattr(facts.tenant, need.removeprefix("tenant."))
    return getattr(facts, need)
