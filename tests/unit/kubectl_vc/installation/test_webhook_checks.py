"""Webhooks that refuse writes while nothing answers."""

from dataclasses import replace

import pytest

from kubectl_vc.installation.installation_facts import WebhookServer
from kubectl_vc.installation.webhook_checks import check_webhooks
from tests.support.kubectl_vc.installation_faults import SOUND, named


def server(*, service: object = (), has_endpoint: bool = False, resources=("pods",)):
    """Return a webhook that refuses writes while nothing answers."""
    webhook = {
        "name": "w.example.com",
        "clientConfig": {"service": {"namespace": "w", "name": "s"}},
        "rules": [{"resources": list(resources)}],
    }
    return WebhookServer(
        configuration={"kind": "ValidatingWebhookConfiguration", "metadata": {"name": "w"}},
        webhook=webhook,
        service=named("s") if service is not None else None,
        has_endpoint=has_endpoint,
    )


@pytest.mark.parametrize(
    ("found", "state", "said"),
    [
        (server(service=None), "wrong", "its Service w/s does not exist"),
        (server(), "wrong", "its Service w/s has no ready endpoint"),
        (server(resources=["certificates"]), "note", "its Service w/s has no ready endpoint"),
        (server(has_endpoint=True), "ok", "Every webhook"),
    ],
    ids=["without a Service", "without an endpoint", "of other kinds", "sound"],
)
def test_webhook_without_a_server_refuses_writes(found, state, said):
    link = check_webhooks(replace(SOUND, webhook_servers=[found]))
    assert (link.state, said in link.message) == (state, True)
    expected = "" if state == "ok" else "kubectl describe validatingwebhookconfiguration w"
    assert link.next_command == expected
