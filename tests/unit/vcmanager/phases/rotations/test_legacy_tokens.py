"""Token Secrets that are older than the present key, in pages of what the tenant controls."""

from datetime import timedelta

import pytest

from kubeio import errors
from tests.support.vcmanager.factories import NOW, RecordingClient
from vcmanager.phases.rotations import legacy_tokens

HOUR = timedelta(hours=1)


def secret(name, created, used=""):
    labels = {"labels": {"kubernetes.io/legacy-token-last-used": used}} if used else {}
    stamp = created.strftime("%Y-%m-%dT%H:%M:%SZ")
    return {"metadata": {"namespace": "web", "name": name, "creationTimestamp": stamp, **labels}}


class Pages(RecordingClient):
    """Answers a list in pages, without an end if asked to."""

    def __init__(self, *pages, endless=False):
        super().__init__()
        self.pages, self.endless, self.asked = pages, endless, []

    async def list(self, resource, **words):
        self._fail("list", resource.plural)
        self.asked.append(words)
        number = len(self.asked) - 1
        if self.endless:
            return {"items": [], "metadata": {"continue": "more"}}
        last = number == len(self.pages) - 1
        return {"items": self.pages[number], "metadata": {} if last else {"continue": f"{number}"}}


@pytest.mark.parametrize(
    ("pages", "words"),
    [
        ([[]], []),
        ([[secret("new", NOW + HOUR)]], []),
        ([[secret("old", NOW - HOUR)]], ["web/old (never seen in use)"]),
        ([[secret("equal", NOW)]], ["web/equal"]),
        (
            [[secret("a", NOW - HOUR, "2026-01-02")], [secret("b", NOW - HOUR)]],
            ["web/a (last used on 2026-01-02)", "web/b (never"],
        ),
        ([[secret(f"s{n}", NOW - HOUR) for n in range(5)]], ["web/s2", "and 2 more"]),
    ],
)
async def test_secrets_from_before_the_new_key_are_named(pages, words):
    client = Pages(*pages)
    found = await legacy_tokens.find_hold(client, NOW)
    assert bool(found) == bool(words)
    assert all(word in found for word in words)
    assert all(asked["metadata_only"] for asked in client.asked)
    assert all("service-account-token" in asked["field_selector"] for asked in client.asked)
    assert [asked["continue_token"] for asked in client.asked] == ["", "0"][: len(pages)]


async def test_what_cannot_be_counted_holds():
    client = Pages([])
    client.problems["list", "secrets"] = errors.Forbidden("no")
    assert "cannot be listed" in await legacy_tokens.find_hold(client, NOW)
    assert "not ready" in await legacy_tokens.find_hold(None, NOW)
    endless = Pages(endless=True)
    assert "more than 1000" in await legacy_tokens.find_hold(endless, NOW)
    assert len(endless.asked) == 20
