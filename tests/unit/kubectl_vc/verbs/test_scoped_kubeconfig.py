"""Kubeconfigs with a role: what is refused before a server is asked."""

import io

import pytest

from kubectl_vc.client.config_flags import ConfigFlags
from kubectl_vc.output.cli_errors import CliError
from kubectl_vc.output.terminal import Terminal
from kubectl_vc.verbs import scoped_kubeconfig
from kubectl_vc.verbs.scoped_kubeconfig import ScopedOptions

TERMINAL = Terminal(io.StringIO(), io.StringIO())


async def test_shorter_life_than_the_api_accepts_is_refused():
    options = ScopedOptions("view", 599, None, force=False)
    with pytest.raises(CliError, match="--ttl must be 10m00s or longer"):
        await scoped_kubeconfig.run_scoped(ConfigFlags(), TERMINAL, name="web", options=options)


@pytest.mark.parametrize("user", ["admin", "system:masters", "vc-kubeconfig:", ""])
async def test_only_users_of_scoped_kubeconfigs_can_be_revoked(user):
    with pytest.raises(CliError, match="is not the user of a kubeconfig with a role"):
        await scoped_kubeconfig.run_revoke(ConfigFlags(), TERMINAL, name="web", user=user)


async def test_without_a_name_the_tenants_kubeconfig_must_be_named():
    options = ScopedOptions("view", 600, None, force=False)
    with pytest.raises(CliError, match="NAME is missing"):
        await scoped_kubeconfig.run_scoped(ConfigFlags(), TERMINAL, name="", options=options)


async def test_missing_file_is_an_error_with_its_path(tmp_path):
    with pytest.raises(CliError, match="gone cannot be read: No such file"):
        await scoped_kubeconfig.run_renew(ConfigFlags(), TERMINAL, tmp_path / "gone")
