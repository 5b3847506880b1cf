"""The table of certificates in a tenant, and the parser of a request to renew them."""

import json
from datetime import timedelta

import pytest

from tenancy import wellknown
from tests.support.vcmanager.factories import NOW
from vcmanager.plan import certificate_table
from vcmanager.runtime.certificate_expiry import CertificateValidity

DAY = timedelta(days=1)


def test_table_names_each_certificate_with_its_end_and_no_key():
    made = certificate_table.build_config_map(
        {
            "apiserver-ca": CertificateValidity(NOW + 90 * DAY, NOW + 60 * DAY, NOW),
            "admin-kubeconfig": CertificateValidity(NOW + 30 * DAY, NOW + 20 * DAY, NOW),
            "root-ca": CertificateValidity(NOW + 3652 * DAY, issued=NOW),
            "manager-kubeconfig": CertificateValidity(NOW + DAY, NOW, NOW),
        }
    )
    assert made["metadata"] == {"name": "vc-certificates", "namespace": "kube-public"}
    rows = json.loads(made["data"].pop(wellknown.CERTIFICATES_KEY))
    assert made["data"] == {}
    assert {row["name"]: row["kind"] for row in rows} == {
        "admin-kubeconfig": "kubeconfig",
        "apiserver-ca": "certificate",
        "root-ca": "authority",
    }
    assert all(set(row) == {"name", "kind", "issued", "expires", "renewal"} for row in rows)
    assert next(row for row in rows if row["kind"] == "authority")["renewal"] == ""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (None, None),
        ("", None),
        ("now", None),
        ("2026-11-28", None),  # no time zone
        ((NOW - DAY).isoformat(), NOW - DAY),
        ((NOW + timedelta(minutes=4)).isoformat(), NOW),
        ((NOW + timedelta(minutes=6)).isoformat(), None),
        ("9999-12-31T23:59:59+00:00", None),
        ("x" * 100_000, None),
    ],
    ids=lambda each: str(each)[:30],
)
def test_request_is_a_time_that_is_not_in_the_future(text, expected):
    annotations = {} if text is None else {wellknown.RENEW_CERTIFICATES: text}
    body = {"metadata": {"annotations": annotations}}
    assert certificate_table.parse_request(body, NOW) == expected


@pytest.mark.parametrize(
    ("days_left", "life_days", "is_due"),
    [(13, 90, True), (15, 90, False), (-1, 90, False), (5, 12, False), (3, 12, True)],
)
def test_the_end_of_a_replaced_kubeconfig_is_an_event(days_left, life_days, is_due):
    shown = {"metadata": {"name": "vc-certificates", "namespace": "kube-public", "uid": "u"}}
    ends = [NOW + timedelta(days=days_left)]
    lifetime = timedelta(days=life_days)
    found = certificate_table.build_end_events(shown, ends, lifetime=lifetime, now=NOW)
    assert len(found) == is_due
    for event in found:
        assert f"{ends[0]:%Y-%m-%d}" in event["message"]
        assert event["involvedObject"]["uid"] == "u"


@pytest.mark.parametrize(
    ("days_left", "minutes"),
    [([], None), ([-1], None), ([13], 40), ([1, 40], 40), ([15], 24 * 60), ([15, 20], 24 * 60)],
)
def test_an_event_is_written_again_before_the_api_server_deletes_it(days_left, minutes):
    ends = [NOW + days * DAY for days in days_left]
    found = certificate_table.compute_next_event(ends, lifetime=90 * DAY, now=NOW)
    assert found == (None if minutes is None else NOW + timedelta(minutes=minutes))
