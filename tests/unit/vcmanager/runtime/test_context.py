"""The clients of tenants: kept while what they were made for stays the same."""

from datetime import timedelta

import pytest

from tenancy import resources
from tests.support.vcmanager.factories import FACTS, NOW, UID
from vcmanager.pki import authority, bundles, inventory
from vcmanager.plan import metrics_api, tenant_objects
from vcmanager.runtime import context

ROOT = authority.make_authority("any", now=NOW)


def kubeconfig(port=6443):
    login = next(each for each in inventory.list_logins(FACTS) if each.credential == "manager")
    return bundles.build_kubeconfig(
        authority.make_leaf(ROOT, login.subject, lifetime=timedelta(days=1), now=NOW),
        cluster="vc",
        user="manager",
        server=f"https://192.0.2.1:{port}",
        authority=ROOT.certificate,
    )


class FakeTenantWatch:
    """Stands where watches would be opened."""

    made: list["FakeTenantWatch"] = []  # noqa: RUF012 - one test at a time

    def __init__(self, _client, watched, _changed, *, awaited_resources=(), **_):
        self.watched, self.is_closed = (*watched, *awaited_resources), False
        self.made.append(self)

    async def close(self):
        self.is_closed = True


@pytest.fixture
def lookouts(monkeypatch):
    monkeypatch.setattr(FakeTenantWatch, "made", [])
    monkeypatch.setattr(context, "TenantWatch", FakeTenantWatch)
    return FakeTenantWatch.made


async def test_a_client_stays_until_its_credential_or_what_is_watched_changes(lookouts):
    usual, more = (
        tenant_objects.BOOTSTRAP_RESOURCES,
        (*tenant_objects.BOOTSTRAP_RESOURCES, *metrics_api.WATCHED_RESOURCES),
    )
    first, second = kubeconfig(), kubeconfig()
    async with context.TenantClients() as tenants:

        async def get(document, watched):
            return await tenants.get(
                UID, document, "it", on_changed=lambda: None, watched_resources=watched
            )

        one = await get(first, usual)
        assert await get(first, usual) is one
        other = await get(first, more)
        assert other is not one
        assert await get(second, more) is not other
        assert [resources.API_SERVICES in each.watched for each in lookouts] == [False, True, True]
        assert [each.is_closed for each in lookouts] == [True, True, False]
    assert all(each.is_closed for each in lookouts)


async def test_shared_objects_are_watched_while_the_tenant_is_connected(lookouts):
    async with context.TenantClients() as tenants:
        await tenants.watch_content(UID, needs_namespaces=True, on_changed=lambda: None)
        assert (tenants.find(UID), lookouts) == (None, [])
        client = await tenants.get(
            UID, kubeconfig(), "it", on_changed=lambda: None, watched_resources=()
        )
        assert tenants.find(UID) is client
        for needed in (False, False, True):
            await tenants.watch_content(UID, needs_namespaces=needed, on_changed=lambda: None)
        _, first, second = lookouts
        assert first.is_closed
        assert [resources.NAMESPACES in each.watched for each in (first, second)] == [False, True]
        await tenants.drop(UID)
        assert second.is_closed
