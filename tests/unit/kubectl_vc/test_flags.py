import pytest

from kubectl_vc import flags


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("5s", 5.0),
        ("5", 5.0),
        ("2m", 120.0),
        ("1h", 3600.0),
        ("1m30s", 90.0),
        ("0", 0.0),
        (7.5, 7.5),
    ],
)
def test_duration_is_parsed(text, seconds):
    assert flags.parse_seconds(text) == seconds


@pytest.mark.parametrize("text", ["", "5x", "s", "-5s", "five"])
def test_wrong_duration_is_a_usage_error(text):
    with pytest.raises(ValueError, match="is not a time"):
        flags.parse_seconds(text)


def test_connection_flags_are_one_value():
    found = flags.build_connection_flags(
        namespace="web",
        kubeconfig="file",
        context="c",
        as_user="ada",
        as_group=["ops", "dev"],
        request_timeout=5.0,
    )
    assert (found.kubeconfig, found.context, found.namespace) == ("file", "c", "web")
    assert (found.as_user, found.as_groups) == ("ada", ("ops", "dev"))
    assert found.request_timeout_seconds == 5.0
    assert flags.build_connection_flags().as_groups == ()
