"""Check of the webhooks of the super cluster: each one that refuses writes has a server. Pure."""

from kubectl_vc.diagnosis.object_facts import Body, get_metadata
from kubectl_vc.installation.check_table import LinkState
from kubectl_vc.installation.installation_facts import InstallationFacts, WebhookServer

_WRITTEN = frozenset(
    {
        "*",
        "*/*",
        "configmaps",
        "deployments",
        "endpointslices",
        "ingresses",
        "jobs",
        "namespaces",
        "networkpolicies",
        "persistentvolumeclaims",
        "pods",
        "secrets",
        "services",
        "statefulsets",
    }
)
"""Resources that the components write in the super cluster. Other webhooks stop none of them."""


def check_webhooks(facts: InstallationFacts) -> LinkState:
    """Return whether a webhook refuses writes because nothing answers for it."""
    silent = [each for each in facts.webhook_servers or () if not each.has_endpoint]
    broken = next((each for each in silent if _is_about_ours(each.webhook)), None)
    if broken is not None:
        return LinkState("wrong", _describe(broken), _build_command(broken))
    if silent:
        return LinkState("note", _describe(silent[0]), _build_command(silent[0]))
    return LinkState("ok", "Every webhook that refuses writes has a server.")


def _is_about_ours(webhook: Body) -> bool:
    return any(
        not _WRITTEN.isdisjoint(rule.get("resources") or ()) for rule in webhook.get("rules") or ()
    )


def _describe(server: WebhookServer) -> str:
    place = get_service_place(server.webhook)
    state = "has no ready endpoint" if server.service is not None else "does not exist"
    return (
        f"The webhook {server.webhook.get('name')} refuses writes, because its Service"
        f" {'/'.join(place)} {state}."
    )


def _build_command(server: WebhookServer) -> str:
    kind = str(server.configuration.get("kind")).lower()
    return f"kubectl describe {kind} {get_metadata(server.configuration).get('name')}"


def get_service_place(webhook: Body) -> tuple[str, str]:
    """Return namespace and name of the Service of a webhook. Empty for a webhook with a URL."""
    service = (webhook.get("clientConfig") or {}).get("service") or {}
    return str(service.get("namespace") or ""), str(service.get("name") or "")
