"""The clients of tenants: kept while what they were made for stays the same."""

import asyncio
import os
import ssl
from datetime import timedelta
from pathlib import Path

import pytest
import trustme

from kubeio import errors
from tenancy import resources
from tests.support.faults import misbehaving
from tests.support.vcmanager.factories import FACTS, NOW, UID
from vcmanager.pki import authority, bundles, inventory
from vcmanager.plan import metrics_api, tenant_objects
from vcmanager.runtime import context

ROOT = authority.make_authority("any", now=NOW)


MIB = 1024 * 1024
MAX_GROWTH_BYTES = 48 * MIB
"""Resident memory that endless answers may add, with that of the server in the same process."""


def kubeconfig(server="https://192.0.2.1:6443", certificate=ROOT.certificate):
    login = next(each for each in inventory.list_logins(FACTS) if each.credential == "manager")
    return bundles.build_kubeconfig(
        authority.make_leaf(ROOT, login.subject, lifetime=timedelta(days=1), now=NOW),
        cluster="vc",
        user="manager",
        server=server,
        authority=certificate,
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


def read_resident_bytes():
    """Return the resident memory of this process."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


async def test_endless_answers_cost_little_memory_and_no_other_tenant_its_answer():
    """T2-14: eight requests at once and a watch, each answered without an end."""
    piece = b"y" * (256 * 1024)

    async def hostile(_, answer):
        await answer.begin()
        while True:
            await answer.chunk(piece)

    async def good(_, answer):
        await answer.json({"gitVersion": "v1.36.4", "items": []})

    trust, tls = trustme.CA(), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trust.issue_cert("127.0.0.1").configure_cert(tls)
    certificate = trust.cert_pem.bytes()
    highest = 0

    async def sample():
        nonlocal highest
        while True:
            highest = max(highest, read_resident_bytes())
            await asyncio.sleep(0.002)

    async with (
        misbehaving(hostile, tls=tls) as attacker,
        misbehaving(good, tls=tls) as honest,
        context.TenantClients() as tenants,
    ):

        async def connect(uid, server, watched):
            return await tenants.get(
                uid,
                kubeconfig(server.endpoint.server, certificate),
                uid,
                on_changed=lambda: None,
                watched_resources=watched,
            )

        beside = await connect("good", honest, ())
        await beside.version()
        before = read_resident_bytes()
        sampling = asyncio.ensure_future(sample())
        client = await connect("hostile", attacker, tenant_objects.BOOTSTRAP_RESOURCES)
        for _ in range(3):
            asked = [
                client.get(resources.CONFIG_MAPS, f"c{number}", namespace="default")
                for number in range(8)
            ]
            attack = asyncio.gather(*asked, return_exceptions=True)
            assert await beside.version() == "v1.36.4"
            assert {type(each) for each in await attack} == {errors.ResponseTooLarge}
        sampling.cancel()
    assert highest - before < MAX_GROWTH_BYTES, f"{(highest - before) // MIB} MiB more"
