"""Kubeconfigs with a role: what is refused before a server is asked."""

import base64
import io
from unittest.mock import AsyncMock

import pytest
import trustme

from kubectl_vc.client import client_certificates, server_authority
from kubectl_vc.client.config_flags import ConfigFlags
from kubectl_vc.output.cli_errors import CliError
from kubectl_vc.output.terminal import Terminal
from kubectl_vc.verbs import scoped_kubeconfig
from kubectl_vc.verbs.scoped_kubeconfig import ScopedOptions
from kubeio import errors

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


@pytest.mark.parametrize(
    ("problem", "reason"),
    [
        (
            errors.Unavailable(
                "the connection was closed",
                request=errors.RequestDescription("https://web", "GET", "/api/v1/namespaces/x"),
            ),
            "https://web: the connection was closed. After",
        ),
        (CliError("the ConfigMap has no certificate."), "the ConfigMap has no certificate. After"),
    ],
)
async def test_a_kept_authority_is_reported_without_the_path_of_a_request(
    problem, reason, tmp_path, monkeypatch
):
    path = tmp_path / "web.kubeconfig"
    authority = base64.b64encode(trustme.CA().cert_pem.bytes()).decode()
    path.write_text(
        "{current-context: web, contexts: [{name: web, context: {cluster: web, user: web}}],"
        " clusters: [{name: web, cluster: {server: 'https://127.0.0.1:1',"
        f" certificate-authority-data: {authority}}}}}],"
        " users: [{name: web, user: {token: t}}]}"
    )
    credential = AsyncMock(return_value=None)
    monkeypatch.setattr(client_certificates, "read_user", lambda _: ("ann", ()))
    monkeypatch.setattr(client_certificates, "request_credential", credential)
    monkeypatch.setattr(client_certificates, "replace_credential", lambda content, _: content)
    monkeypatch.setattr(server_authority, "fetch_authorities", AsyncMock(side_effect=problem))
    err = io.StringIO()
    await scoped_kubeconfig.run_renew(ConfigFlags(), Terminal(io.StringIO(), err), path)
    assert f"because the present one cannot be used: {reason}" in " ".join(err.getvalue().split())
    assert "GET" not in err.getvalue()
