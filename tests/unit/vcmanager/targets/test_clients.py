"""Clients of targets, which are kept between two reconciles."""

from __future__ import annotations

from dataclasses import replace

import trustme

from kubeio.config.endpoint import Endpoint
from vcmanager.targets.clients import TargetClientCache


async def test_a_client_is_kept_until_its_credential_changes_or_is_dropped():
    authority = trustme.CA().cert_pem.bytes()
    endpoint = Endpoint(server="https://c2.invalid", ca=authority, token="one")
    async with TargetClientCache() as cache:
        kept = await cache.get_client("c2", endpoint)
        assert await cache.get_client("c2", endpoint) is kept
        assert await cache.get_client("c3", endpoint) is not kept
        endpoint = replace(endpoint, token="two")
        changed = await cache.get_client("c2", endpoint)
        assert changed is not kept
        await cache.drop("c2")
        assert await cache.get_client("c2", endpoint) is not changed
    assert cache._clients == {}
