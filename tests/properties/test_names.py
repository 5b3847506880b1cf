"""A million names: none taken twice, none too long, whatever their owners call things.

Only the shortened form is proof against someone who aims: two VirtualClusters whose UIDs begin
with the same 24 bits of digest share their short names, and a tenant can spell out the shortened
form of another of its names. Both UIDs and the tenant's own name, recorded on each object, decide
then (`syncer.model.decide`). Here that is forced for the shortened form, and left out for the short
one.
"""

from __future__ import annotations

import hashlib
import itertools
import random
import uuid
from collections.abc import Iterator
from typing import NamedTuple

from tenancy import names

SEED = 4
TRIPLES = 1_000_000
NAMESPACES = 1000
"""Namespaces of each tenant."""
CUT = 46
"""Characters of a shortened name that are left as they were."""


class NamedTenant(NamedTuple):
    """A VirtualCluster as far as its names go."""

    namespace: str
    name: str
    uid: str

    @property
    def root(self) -> str:
        """Its root namespace."""
        return names.build_root_namespace(self.namespace, self.name, self.uid)


def uids(seed: int) -> Iterator[str]:
    """Yield UIDs, the same at each run."""
    source = random.Random(seed)  # noqa: S311 - the same at each run
    while True:
        yield str(uuid.UUID(int=source.getrandbits(128), version=4))


def identities() -> Iterator[tuple[str, str]]:
    """Yield namespaces and names that look alike when they are joined."""
    words = ("a", "vc", "kube", "default", "1", "abc123", "x" * 20)
    for left, right in itertools.product(words, repeat=2):
        for middle in words:
            for pair in ((f"{left}-{middle}", right), (left, f"{middle}-{right}")):
                if len("".join(pair)) <= names.MAX_NAMESPACE_AND_NAME:
                    yield pair
    for number in itertools.count():
        size = number % (names.MAX_NAMESPACE_AND_NAME - 11)
        yield f"n{number % 7}", f"{'v' * size}{number:x}"


def tenants() -> list[NamedTenant]:
    """Return tenants of different identities."""
    found = dict.fromkeys(identities_until(TRIPLES // NAMESPACES))
    return [NamedTenant(*pair, uid) for pair, uid in zip(found, uids(SEED), strict=False)]


def identities_until(count: int) -> Iterator[tuple[str, str]]:
    """Yield that many identities, each once."""
    seen: set[tuple[str, str]] = set()
    for pair in identities():
        if pair not in seen:
            seen.add(pair)
            yield pair
        if len(seen) == count:
            return


def namespaces(tenant: NamedTenant, others: list[str]) -> Iterator[str]:
    """Yield names that invite a collision: alike at the front, at the cut, and where they join."""
    yield from ("default", "kube-system", "a", "1", "a-a")
    left = names.MAX_LABEL - len(tenant.root) - 1
    for size in range(max(1, left - 3), names.MAX_LABEL + 1):  # around the greatest length
        yield "x" * size
        for gap in range(max(1, CUT - len(tenant.root) - 3), min(size - 1, CUT)):
            yield f"{'x' * gap}-{'x' * (size - gap - 1)}"  # a hyphen around the cut
    for other in others:  # what would make one root and namespace read as another's
        yield f"{other}-web"[: names.MAX_LABEL].strip("-")
        yield f"{other.partition('-')[2]}-web"
    for number in itertools.count():
        yield f"{'p' * (number % 50)}{number:06x}"  # alike up to far beyond the cut
        yield f"{'p' * 50}-{number:06x}"


def test_a_million_triples_have_a_million_names():
    everybody = tenants()
    assert len(everybody) == TRIPLES // NAMESPACES
    assert len({tenant.root for tenant in everybody}) == len(everybody)
    source = random.Random(SEED)  # noqa: S311 - the same at each run
    seen: set[str] = set()
    tried = 0
    for tenant in everybody:
        others = [other.name for other in source.sample(everybody, 20)]
        root, found = tenant.root, dict[str, None]()
        for name in namespaces(tenant, others):
            if names.is_dns_label(name):
                found[name] = None
            if len(found) == NAMESPACES:
                break
        made = [names.build_super_namespace(root, tenant.uid, name) for name in found]
        assert all(names.is_dns_label(name) for name in made)
        seen.update(made)
        tried += len(made)
    assert tried == TRIPLES
    assert len(seen) == tried


def alike() -> list[tuple[str, str]]:
    """Return pairs of UIDs whose roots are the same."""
    by_digest: dict[str, str] = {}
    found = []
    for uid in itertools.islice(uids(SEED), 40_000):
        digest = hashlib.sha256(uid.encode()).hexdigest()[:6]
        if digest in by_digest:
            found.append((by_digest[digest], uid))
        by_digest[digest] = uid
    return found


def test_roots_that_are_forced_to_be_the_same_do_not_share_a_shortened_name():
    pairs = alike()
    assert len(pairs) > 10
    seen: set[str] = set()
    tried = 0
    for one, other in pairs:
        root = names.build_root_namespace("default", "vc", one)
        assert root == names.build_root_namespace("default", "vc", other)
        for uid in (one, other):
            for number in range(500):
                seen.add(names.build_super_namespace(root, uid, f"{'p' * 50}-{number:06x}"))
                tried += 1
    assert len(seen) == tried


def test_digests_know_where_a_part_ends():
    """Volumes and tokens, whose parts are a tenant's words: shifted, swapped and empty ones."""
    words = ("", "1", "a", "aa", "1:a", "a1", ":", "1:", "a" * 10, "a" * 11, "0", "é", "7200")
    volumes = {names.build_volume_name(*parts) for parts in itertools.product(words, repeat=2)}
    assert len(volumes) == len(words) ** 2
    tokens = {
        names.build_token_secret_name(account, audience, seconds, pod)
        for account, audience, pod in itertools.product(words, repeat=3)
        for seconds in (0, 1, 10, 7200)
    }
    assert len(tokens) == 4 * len(words) ** 3
    assert all(names.is_dns_subdomain(name) and len(name) <= 63 for name in volumes | tokens)
