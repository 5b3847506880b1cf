"""A rotation is stored in one Secret, and read back in each stage."""

import pytest

from tenancy import wellknown
from tests.support.vcmanager.factories import FACTS, NOW
from vcmanager.pki import authority, bundles, checks, rotated_secrets, rotation
from vcmanager.pki.rotated_secrets import InvalidRotationError
from vcmanager.pki.rotation import AuthorityKeys, RotationState


def make(name):
    if name == "service-account":
        return authority.make_service_account_keys()
    return authority.make_authority(name, now=NOW)


def stored(secret, patch):
    """Return the Secret after a merge patch."""
    data = {**secret["data"], **patch.get("data", {})}
    metadata = {**secret["metadata"], "annotations": patch["metadata"]["annotations"]}
    return {
        **secret,
        "metadata": metadata,
        "data": {key: value for key, value in data.items() if value is not None},
    }


def first(name):
    secret = bundles.build_key_pair_secret("x", FACTS.root, make(name))
    secret["metadata"] |= {"uid": "u", "resourceVersion": "7"}
    return secret


def walk(name):
    """Yield the Secret, state and keys after each move."""
    secret = first(name)
    state, keys = rotated_secrets.read_rotation(name, secret)
    for move in ("start", "issue", "drop"):
        state, keys = rotation.apply_move(move, state, keys, made=make(name), start=NOW)
        state = rotation.settle(state, NOW)
        patch = rotated_secrets.build_patch(name, secret, state, keys)
        assert patch["metadata"]["resourceVersion"] == "7"
        secret = stored(secret, patch)
        yield secret, state, keys


@pytest.mark.parametrize("name", ["serving", "service-account"])
def test_each_stage_is_read_back_as_it_was_written(name):
    for secret, state, keys in walk(name):
        assert rotated_secrets.read_rotation(name, secret) == (state, keys)


def test_the_signing_certificate_stays_alone_in_its_file():
    """The controller manager refuses a file with two certificates (ca_provider.go)."""
    for secret, _, _ in walk("client"):
        assert bundles.read_data(secret, "tls.crt").count(b"BEGIN CERTIFICATE") == 1


def test_both_public_keys_verify_tokens_and_the_signing_key_is_the_first():
    for secret, state, _ in walk("service-account"):
        pair = bundles.read_key_pair(secret)
        assert checks.find_keys_fault(pair) is None
        assert pair.certificate.count(b"BEGIN PUBLIC KEY") == 1 + (state.stage != "stable")


def test_an_unused_key_is_not_kept():
    for secret, state, _ in walk("serving"):
        assert ("other.key" in secret["data"]) == (state.stage == "trust-both")
        assert ("other.crt" in secret["data"]) == (state.stage != "stable")


@pytest.mark.parametrize(
    ("annotation", "other"),
    [
        ("{", None),
        ('{"stage": "half", "settled": "", "requested": ""}', None),
        ('{"stage": "trust-both", "settled": "", "requested": ""}', None),
        ('{"stage": "trust-both", "settled": "", "requested": ""}', b"nonsense"),
        ('{"stage": "issue-new", "settled": "", "requested": ""}', b"nonsense"),
        ('{"stage": "stable", "settled": "2026-01-01T00:00:00", "requested": ""}', None),
        ("[]", None),
    ],
)
def test_a_half_rotation_is_refused(annotation, other):
    secret = first("serving")
    secret["metadata"]["annotations"] = {wellknown.AUTHORITY_ROTATION: annotation}
    if other is not None:
        secret["data"]["other.crt"] = bundles.encode_base64(other)
    with pytest.raises(InvalidRotationError):
        rotated_secrets.read_rotation("serving", secret)


def test_an_authority_without_a_rotation_is_stable():
    state, keys = rotated_secrets.read_rotation("serving", first("serving"))
    assert state == RotationState()
    assert keys == AuthorityKeys(current=keys.current)
