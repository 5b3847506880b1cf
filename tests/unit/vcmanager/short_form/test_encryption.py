"""Keys and configuration of the encryption of Secrets (T2-17)."""

import base64
import json

import pytest

from tenancy.control_plane_specs import EncryptionSpec
from vcmanager.runtime.blocked import PhaseBlocked
from vcmanager.short_form import encryption

AESCBC, SECRETBOX = EncryptionSpec(provider="aescbc"), EncryptionSpec(provider="secretbox")


def build(existing, spec, *, is_initialised=False, may_switch=True):
    return encryption.build_encryption_secret(
        existing, spec, "root", is_initialised=is_initialised, may_switch=may_switch
    )


def order(secret) -> list[str]:
    document = json.loads(base64.b64decode(secret["data"]["encryption.yaml"]))
    (rule,) = document["resources"]
    assert rule["resources"] == ["secrets"]
    return [next(iter(each)) for each in rule["providers"]]


def test_without_the_field_there_are_no_keys():
    assert build(None, None) is None


def test_a_new_key_encrypts_and_plain_values_can_still_be_read():
    made = build(None, AESCBC)
    assert order(made) == ["aescbc", "identity"]
    assert len(base64.b64decode(made["data"]["aescbc.key"])) == 32


def test_a_kept_secret_is_the_same_to_the_byte():
    made = build(None, AESCBC)
    assert build(made, AESCBC, is_initialised=True) == made


def test_another_provider_encrypts_and_the_old_one_still_decrypts():
    first = build(None, AESCBC)
    second = build(first, SECRETBOX, is_initialised=True)
    assert order(second) == ["secretbox", "aescbc", "identity"]
    assert second["data"]["aescbc.key"] == first["data"]["aescbc.key"]


def test_without_the_field_later_secrets_are_plain_and_old_ones_can_be_read():
    assert order(build(build(None, AESCBC), None, is_initialised=True)) == ["identity", "aescbc"]


def test_with_several_api_servers_a_new_key_decrypts_first_and_encrypts_later():
    first = build(None, AESCBC, may_switch=False)
    assert order(first) == ["identity", "aescbc"]
    assert build(first, AESCBC, may_switch=False) == first
    second = build(first, AESCBC, may_switch=True)
    assert order(second) == ["aescbc", "identity"]
    # The rollout of the switch itself is no reason to go back.
    assert build(second, AESCBC, may_switch=False) == second


@pytest.mark.parametrize(
    "existing",
    [
        None,
        {"data": {}},
        {"data": {"aescbc.key": base64.b64encode(b"short").decode()}},
        {"data": {"aescbc.key": "%"}},
    ],
)
def test_lost_keys_are_never_replaced(existing):
    """SEC-83."""
    with pytest.raises(PhaseBlocked) as caught:
        build(existing, AESCBC, is_initialised=True)
    assert caught.value.reason == "EncryptionKeysLost"
    assert caught.value.needs_admin
    assert "Restore it from a backup" in caught.value.message
