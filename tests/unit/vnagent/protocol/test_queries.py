"""The query of each route: what is known is read by type, what is not is dropped."""

from urllib.parse import parse_qsl, quote_plus, urlencode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vnagent.protocol import queries
from vnagent.protocol.errors import RefusalReason, RequestRefusedError

WORDS = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=40)


def test_every_log_option_is_read():
    """Each option of `kubectl logs` is parsed and written without change."""
    written = {
        "follow": "true",
        "limitBytes": "100",
        "previous": "true",
        "sinceSeconds": "3600",
        "sinceTime": "2026-01-02T15:04:05+01:00",
        "stream": "All",
        "tailLines": "0",
        "timestamps": "true",
    }
    for other in ("sinceSeconds", "sinceTime"):
        one = {key: value for key, value in written.items() if key != other}
        assert dict(queries.parse_log_options(urlencode(one).encode())) == one


def test_switches_that_are_off_are_left_out():
    """The kubelet takes any odd word for true, so only a plain one is passed."""
    assert queries.parse_log_options(b"follow=false&previous=0&timestamps=1") == (
        ("timestamps", "true"),
    )
    assert queries.parse_attach_options(b"input=1&output=true&error=0&tty=false") == (
        ("input", "1"),
        ("output", "1"),
    )


@pytest.mark.parametrize(
    ("read", "raw"),
    [
        *((queries.parse_log_options, raw) for raw in (b"tailLines=-1", b"tailLines=1e3")),
        *(
            (queries.parse_log_options, raw)
            for raw in (b"tailLines=", b"tailLines=01", b"tailLines=+1")
        ),
        (queries.parse_log_options, b"tailLines=9223372036854775808"),
        (queries.parse_log_options, b"tailLines=%D9%A1"),  # an Arabic digit
        (queries.parse_log_options, b"limitBytes=0"),
        (queries.parse_log_options, b"sinceSeconds=0"),
        (queries.parse_log_options, b"sinceTime=yesterday"),
        (queries.parse_log_options, b"sinceTime=2026-13-45T99:00:00Z"),
        (queries.parse_log_options, b"sinceTime=2026-01-02T15:04:05"),
        (queries.parse_log_options, b"stream=Everything"),
        (queries.parse_log_options, b"follow=maybe"),
        (queries.parse_log_options, b"follow="),
        (queries.parse_log_options, b"tailLines=1&tailLines=2"),
        (queries.parse_log_options, b"tailLines=1&t%61ilLines=2"),
        (queries.parse_attach_options, b"tty=2"),
        (queries.parse_attach_options, b"input=1&input=1"),
        (queries.parse_exec_options, b"output=1"),
        (queries.parse_exec_options, b"command=a%00b"),
        (queries.parse_exec_options, b"command=%ff"),
        (queries.parse_exec_options, b"&".join([b"command=a"] * (queries.MAX_COMMAND_WORDS + 1))),
        (queries.parse_no_options, b"&".join([b"a=b"] * (queries.MAX_QUERY_PARTS + 1))),
        (queries.parse_port_forward_options, b"port=0"),
        (queries.parse_port_forward_options, b"port=65536"),
        (queries.parse_port_forward_options, b"port=80,,81"),
        (queries.parse_port_forward_options, b"port=" + b",".join([b"1"] * 257)),
        *((queries.parse_no_options, raw) for raw in (b"a", b"=a", b"a=1&", b"a=1&&b=2", b"a=%4")),
        *((queries.parse_no_options, raw) for raw in (b"a=1;b=2", b"a=\xe4", b"a=#", b"a= ")),
        (queries.parse_no_options, b"a=" + b"x" * queries.MAX_QUERY_BYTES),
    ],
)
def test_hostile_values_are_refused(read, raw):
    """SEC-10: repeated, out of range, of another type, undecodable, too long."""
    with pytest.raises(RequestRefusedError) as refused:
        read(raw)
    assert refused.value.reason is RefusalReason.BAD_QUERY
    assert refused.value.status in (400, 414)


BOTH = b"sinceSeconds=60&sinceTime=2026-01-02T15:04:05Z"


@pytest.mark.parametrize("raw", [BOTH, b"tailLines=1&" + BOTH, b"&".join(BOTH.split(b"&")[::-1])])
def test_a_log_begins_at_one_time(raw):
    """V-06: both options for its beginning are refused, in whatever order."""
    with pytest.raises(RequestRefusedError, match="sinceSeconds and sinceTime") as refused:
        queries.parse_log_options(raw)
    assert (refused.value.status, refused.value.reason) == (400, RefusalReason.BAD_QUERY)


def test_unknown_keys_are_dropped():
    """An unknown option is not passed to the kubelet."""
    raw = b"tail=all&limitBytes=5&container=other&insecureSkipTLSVerifyBackend=true&cmd=id"
    assert queries.parse_log_options(raw) == (("limitBytes", "5"),)
    assert queries.parse_exec_options(b"command=id&stdin=true") == (("command", "id"),)


@given(st.lists(WORDS, min_size=1, max_size=8))
def test_commands_arrive_word_by_word(words):
    """Whatever the words hold, they come out as they were, in order."""
    raw = "&".join(f"command={quote_plus(word)}" for word in words)
    read = queries.parse_exec_options(raw.encode())
    assert [value for key, value in read if key == "command"] == words
    assert parse_qsl(queries.render_query(read), keep_blank_values=True) == list(read)


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(raw):
    """SEC-10: never another exception, and what is written reads the same."""
    for read in (
        queries.parse_log_options,
        queries.parse_attach_options,
        queries.parse_exec_options,
        queries.parse_port_forward_options,
        queries.parse_no_options,
    ):
        try:
            pairs = read(raw)
        except RequestRefusedError:
            continue
        assert read(queries.render_query(pairs).encode()) == pairs
