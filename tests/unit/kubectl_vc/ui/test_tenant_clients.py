"""The client of a tenant follows the Secret, and a failed tenant rests."""

import base64
import json
from typing import Any

import pytest
import trustme

from kubectl_vc.ui.tenant_clients import PAUSE_SECONDS, NoTenantClientError, TenantApiClients
from kubeio import errors
from tenancy.ownership import Tenant
from tests.support.controlplane import client_pair, kubeconfig

TENANT = Tenant(name="web", namespace="d", uid="vc", root="root")


class FakeSuper:
    """A super cluster that has one Secret."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    async def get(self, *_: Any, **__: Any) -> Any:
        if isinstance(self.answer, Exception):
            raise self.answer
        return {"data": {"admin-kubeconfig": base64.b64encode(self.answer).decode()}}


@pytest.fixture(scope="module")
def good() -> bytes:
    authority = trustme.CA()
    pair = client_pair(authority, "admin", "system:masters")
    return kubeconfig("t", "https://127.0.0.1:1", authority.cert_pem.bytes(), "admin", pair)


def refusal(kind: type[errors.ApiError]) -> errors.ApiError:
    return kind("no", status=403)


async def test_the_client_lives_as_long_as_the_kubeconfig(good: bytes):
    clients, home = TenantApiClients(), FakeSuper(good)
    first = await clients.connect(home, TENANT)  # type: ignore[arg-type]
    assert await clients.connect(home, TENANT) is first  # type: ignore[arg-type]
    home.answer = json.dumps({**json.loads(good), "preferences": {}}).encode()
    assert await clients.connect(home, TENANT) is not first  # type: ignore[arg-type]
    await clients.close()


async def test_a_withdrawn_right_ends_the_access(good: bytes):
    """SEC-261."""
    clients, home = TenantApiClients(), FakeSuper(good)
    await clients.connect(home, TENANT)  # type: ignore[arg-type]
    home.answer = refusal(errors.Forbidden)
    with pytest.raises(NoTenantClientError, match="You may not read the Secret root/admin"):
        await clients.connect(home, TENANT)  # type: ignore[arg-type]
    await clients.close()


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (refusal(errors.NotFound), "does not exist"),
        (b"", "has no key"),
        (b"{}", "cannot be used"),
    ],
)
async def test_without_a_kubeconfig_there_is_a_sentence(answer: Any, text: str):
    with pytest.raises(NoTenantClientError, match=text):
        await TenantApiClients().connect(FakeSuper(answer), TENANT)  # type: ignore[arg-type]


async def test_a_tenant_that_failed_is_left_alone_for_a_while(good: bytes):
    now = [0.0]
    clients, home = TenantApiClients(clock=lambda: now[0]), FakeSuper(good)
    clients.report_failure(TENANT)
    with pytest.raises(NoTenantClientError, match="a moment ago"):
        await clients.connect(home, TENANT)  # type: ignore[arg-type]
    now[0] = PAUSE_SECONDS
    await clients.connect(home, TENANT)  # type: ignore[arg-type]
    await clients.close()
