"""The file of the API server: its basis stays, and the issuers are one line without a restart."""

import json

import msgspec
import pytest
import yaml

from tenancy.access.specs import AuthSpec
from tests.support.vcmanager.factories import wish
from tests.unit.vcmanager.pki.test_reloaded_files import RANGE
from tests.unit.vcmanager.plan.access.test_authentication_rules import GOOD, parse
from vcmanager.plan import control_plane
from vcmanager.plan.access import authentication_config, authentication_rules
from vcmanager.runtime import object_metadata

PLAN = control_plane.build_plan(wish(), RANGE)
BASIS = authentication_config.get_basis(PLAN)


def test_issuers_are_added_to_the_basis_with_the_rules_about_reserved_names():
    file = authentication_config.build_file(BASIS, parse(GOOD))
    document, basis = yaml.safe_load(file), yaml.safe_load(BASIS)
    (issuer,) = document.pop("jwt")
    assert document == basis
    rules = [each["expression"] for each in issuer["userValidationRules"]]
    assert rules == [each.expression for each in authentication_rules.build_user_rules()]
    assert issuer["issuer"] == GOOD["issuer"]
    assert issuer["claimMappings"] == GOOD["claimMappings"]


def test_a_rule_is_not_there_twice():
    own = msgspec.to_builtins(authentication_rules.build_user_rules()[0])
    file = authentication_config.build_file(BASIS, parse({**GOOD, "userValidationRules": [own]}))
    (issuer,) = yaml.safe_load(file)["jwt"]
    assert len(issuer["userValidationRules"]) == 2


def test_an_empty_prefix_stays_and_a_missing_one_is_left_out():
    empty = {"username": {"claim": "sub", "prefix": ""}}
    file = authentication_config.build_file(BASIS, parse({**GOOD, "claimMappings": empty}))
    (issuer,) = yaml.safe_load(file)["jwt"]
    assert issuer["claimMappings"] == empty


@pytest.mark.parametrize("auth", [None, AuthSpec()])
def test_without_issuers_the_file_is_the_basis(auth):
    assert authentication_config.build_file(BASIS, auth) == BASIS
    assert authentication_config.keep_issuers(BASIS, None) == BASIS
    assert authentication_config.keep_issuers(BASIS, BASIS) == BASIS


def test_the_issuers_of_a_live_file_are_kept_on_a_new_basis():
    live = authentication_config.build_file("old: true\n", parse(GOOD))
    kept = authentication_config.keep_issuers(BASIS, live)
    assert kept == authentication_config.build_file(BASIS, parse(GOOD))


def test_a_change_of_issuers_recreates_no_pod():
    changed = authentication_config.replace_file(
        PLAN, authentication_config.build_file(BASIS, parse(GOOD))
    )
    digests = [
        object_metadata.digest_contents(
            [each for each in plan.workloads if each["kind"] == "ConfigMap"], "ConfigMap"
        )
        for plan in (PLAN, changed)
    ]
    assert digests[0] == digests[1]
    config_map = authentication_config.find_config_map(changed)
    other = {**config_map, "data": {**config_map["data"], "authentication.yaml": "other: 1\n"}}
    assert (
        object_metadata.digest_contents([other], "ConfigMap")["ConfigMap", "apiserver-config"]
        != digests[0]["ConfigMap", "apiserver-config"]
    )


def test_texts_cannot_end_the_line():
    hostile = {**GOOD, "issuer": {**GOOD["issuer"], "audiences": ["a\n---\nanonymous: {}\u2028"]}}
    file = authentication_config.build_file(BASIS, parse(hostile))
    assert file.count("\n") == BASIS.count("\n") + 1
    assert json.loads(file.rpartition("jwt: ")[2])[0]["issuer"] == hostile["issuer"]
    assert yaml.safe_load(file)["anonymous"] == yaml.safe_load(BASIS)["anonymous"]
