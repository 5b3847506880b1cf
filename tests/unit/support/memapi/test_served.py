"""API of one cluster on loopback: requests are recorded and refused, watches are sent anything."""

from __future__ import annotations

import asyncio
import ssl

import pytest
import trustme

from kubeio import errors
from kubeio.api.client import Client
from kubeio.config.endpoint import Endpoint
from tenancy.resources import CONFIG_MAPS
from tests.support.eventually import eventually
from tests.support.memapi import clusters, refusals
from tests.support.memapi.served import Served

SPACE = "default"


@pytest.fixture
def served() -> Served:
    return Served(clusters.fresh("served", "10.96.0.0/16", accounts=False))


async def test_requests_are_recorded_and_refused_on_demand(served):
    async with served.running(), Client(served.endpoint) as client:
        await client.create(CONFIG_MAPS, {"metadata": {"name": "a"}}, namespace=SPACE)
        served.refusal = lambda request: (
            refusals.forbidden("configmaps", "a", "no") if request.method == "GET" else None
        )
        with pytest.raises(errors.Forbidden):
            await client.get(CONFIG_MAPS, "a", namespace=SPACE)
    assert [request.method for request in served.requests] == ["POST", "GET"]
    assert served.asked[1].endswith("/configmaps/a")


@pytest.mark.parametrize("chunk_bytes", [0, 7])
async def test_a_watch_is_sent_events_and_what_a_test_reports(served, chunk_bytes):
    query = "?watch=true&resourceVersion=1014&timeoutSeconds=60"
    async with served.running(chunk_bytes=chunk_bytes):
        reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
        writer.write(
            f"GET {CONFIG_MAPS.build_path(SPACE)}{query} HTTP/1.1\r\nHost: a\r\n\r\n".encode()
        )
        await eventually(lambda: served.requests)
        served.say("ODD", {"metadata": None})
        await asyncio.sleep(0)  # the lines of a turn are sent at its end
        served.cluster.cut()
        content = await reader.readuntil(b"0\r\n\r\n")
        writer.close()
    chunks = content.partition(b"\r\n\r\n")[2].split(b"\r\n")
    assert b"".join(chunks[1:-2:2]) == b'{"type":"ODD","object":{"metadata":null}}\n'
    assert {len(chunk) <= (chunk_bytes or 99) for chunk in chunks[1::2]} == {True}
    assert (len(chunks) > 6) is bool(chunk_bytes)


async def test_it_speaks_tls_and_records_credentials(served, tmp_path):
    authority = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    async with served.running(tls=context):
        endpoint = Endpoint(
            server=f"https://127.0.0.1:{served.port}",
            ca=authority.cert_pem.bytes(),
            token="secret",
        )
        async with Client(endpoint) as client:
            await client.list(CONFIG_MAPS, namespace=SPACE)
    assert served.requests[0].authorization == "Bearer secret"
