"""`kubectl vc doctor [NAME]`: the chain of links of an installation and a tenant, each checked.

Owns the report and the exit code. The checks are in `installation_checks` and `tenant_checks`.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, replace

from kubectl_vc.client import lookup
from kubectl_vc.client.config_flags import ConfigFlags
from kubectl_vc.client.connection import SuperConnection, connect_super_cluster
from kubectl_vc.installation import installation_collection
from kubectl_vc.installation.check_table import CheckedLink, run_checks
from kubectl_vc.installation.installation_checks import INSTALLATION_CHECKS
from kubectl_vc.installation.tenant_checks import TENANT_CHECKS
from kubectl_vc.output import printers
from kubectl_vc.output.cli_errors import CliError
from kubectl_vc.output.printers import ReportFormat
from kubectl_vc.output.terminal import Terminal
from tenancy import specs


class BrokenLinkError(CliError):
    """A check failed, or no check could be made. The exit code is 1."""


async def run_doctor(
    access: ConfigFlags,
    terminal: Terminal,
    *,
    name: str,
    manager_namespace: str,
    form: ReportFormat,
) -> None:
    """Print all checks. Raises BrokenLinkError if a link is broken."""
    async with connect_super_cluster(access) as connection:
        found = await check_links(connection, name, manager_namespace)
    if form is ReportFormat.JSON:
        terminal.print_result(json.dumps([asdict(each) for each in found], indent=4))
    else:
        terminal.print_result(build_table(found))
    raise_for_broken_link(found)


async def check_links(
    connection: SuperConnection, name: str, manager_namespace: str
) -> list[CheckedLink]:
    """Return all checks of the installation, and of one tenant if `name` is not empty."""
    super_client = connection.super_client
    facts = await installation_collection.collect_installation_facts(
        super_client, manager_namespace
    )
    if not name:
        return run_checks(facts, INSTALLATION_CHECKS)
    body = await lookup.fetch_virtual_cluster(connection, name)
    tenant = specs.parse_virtual_cluster(body).tenant
    plane = await installation_collection.collect_control_plane(super_client, body, tenant)
    return run_checks(replace(facts, tenant=plane), (*INSTALLATION_CHECKS, *TENANT_CHECKS))


def build_table(found: Sequence[CheckedLink]) -> str:
    """Return the checks as a table."""
    rows = [(each.check, each.state, each.message) for each in found]
    return printers.format_table(("check", "result", "message"), rows)


def find_broken_link(found: Sequence[CheckedLink]) -> CheckedLink | None:
    """Return the first link that is broken. Later failures may be its effects."""
    return next((each for each in found if each.state == "wrong"), None)


def raise_for_broken_link(found: Sequence[CheckedLink]) -> None:
    """Raise BrokenLinkError for the first broken link, or if all results are unknown."""
    broken = find_broken_link(found)
    if broken is not None:
        raise BrokenLinkError(
            f"{broken.check}: {broken.message.rstrip('.')}. Next: {broken.next_command}"
        )
    if all(each.state == "unknown" for each in found):
        raise BrokenLinkError(
            "nothing was checked, because you may not read any of it. Ask an administrator of the"
            " super cluster to run `kubectl vc doctor`."
        )
