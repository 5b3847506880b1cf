"""The map of HAProxy: a tenant's host name, and the address of its API server's Service.

Pure. Owns the text of the map's file, and the commands that change the map of a running HAProxy.

Hazard: only a checked host name and a parsed address may be in a command. Otherwise text of a
VirtualCluster would be a command of the Runtime API.
"""

import re
from collections.abc import Iterable, Mapping

from tenancy.access import hosts
from tenancy.access.hosts import HostClaim

HostMap = Mapping[str, str]
"""Values by host name. A value is an IP address, a slash and a port."""

_LINE = re.compile(r"^0x[0-9a-f]+ (\S+) (\S+)$")


def build_map(owners: Iterable[tuple[str, HostClaim]]) -> dict[str, str]:
    """Return the map of these host names. A tenant without an address is left out."""
    found = {}
    for host, claim in owners:
        address = hosts.parse_address(claim.address)
        if address is not None and hosts.is_host(host):
            found[host] = f"{address[0]}/{address[1]}"
    return found


def format_file(desired: HostMap) -> str:
    """Return the file that HAProxy reads when it starts."""
    return "".join(f"{host} {value}\n" for host, value in sorted(desired.items()))


def parse_answer(text: str) -> list[tuple[str, str]]:
    """Return the rows of an answer to `show map`. Raises ValueError for any other answer."""
    rows = []
    for line in filter(None, text.split("\n")):
        found = _LINE.match(line)
        if found is None:
            raise ValueError(f"HAProxy answered {line[:200]!r} to show map")
        rows.append((found[1], found[2]))
    return rows


def build_commands(
    reference: str, desired: HostMap, actual: Iterable[tuple[str, str]]
) -> list[str]:
    """Return the commands that make the map equal to the desired one.

    A changed address is set in place, so that a host name is never missing in between.
    """
    known: dict[str, list[str]] = {}
    for host, value in actual:
        known.setdefault(host, []).append(value)
    added = [
        f"add map {reference} {host} {desired[host]}"
        for host in sorted(desired.keys() - known.keys())
    ]
    changed = [
        f"set map {reference} {host} {desired[host]}"
        for host in sorted(desired.keys() & known.keys())
        if any(value != desired[host] for value in known[host])
    ]
    removed = [f"del map {reference} {host}" for host in sorted(known.keys() - desired.keys())]
    return [*added, *changed, *removed]
