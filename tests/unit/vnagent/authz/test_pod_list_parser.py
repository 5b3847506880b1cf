"""A kubelet's list, item by item: the same as all of it read at once, or nothing."""

import json
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vnagent.authz import pod_list_parser
from vnagent.authz.pod_list_parser import PodListError, iterate_items

PODS = st.lists(
    st.dictionaries(
        st.text(max_size=5),
        st.recursive(
            st.none() | st.integers() | st.text(),
            lambda inner: st.lists(inner) | st.dictionaries(st.text(max_size=3), inner),
            max_leaves=5,
        ),
        max_size=4,
    ),
    max_size=5,
)


@given(PODS, st.booleans(), st.sampled_from([None, 1]))
def test_items_are_those_of_the_list(pods, is_framed, indent):
    """With the frame that Go writes, without, with spaces and with escapes."""
    frame = {"kind": "PodList", "apiVersion": "v1", "metadata": {"resourceVersion": "5"}}
    document = json.dumps({**(frame if is_framed else {}), "items": pods}, indent=indent)
    assert list(iterate_items(document.encode())) == pods
    compact = json.dumps({"items": pods}, separators=(",", ":"), ensure_ascii=False)
    assert (
        list(iterate_items(compact.encode("utf-8", "surrogatepass"))) == pods
        if _is_clean(pods)
        else True
    )


@given(PODS, st.integers(1, 9))
def test_items_are_the_same_out_of_any_window(pods, size):
    """An item that is cut by the end of a window is read again from a larger one."""
    document = json.dumps({"kind": "PodList", "items": pods}, ensure_ascii=False)
    if _is_clean(pods):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(pod_list_parser, "_SCAN_WINDOW_BYTES", size)
            assert list(iterate_items(document.encode())) == pods


def test_a_wide_letter_does_not_blow_up_the_whole():
    """A text of Python has four bytes for each letter as soon as one needs them."""
    pods = [{"name": "x" * 1_000_000}, {"name": "\U0001f600"}] * 8
    document = json.dumps({"items": pods}, ensure_ascii=False).encode()
    tracemalloc.start()
    try:
        for _ in iterate_items(document):
            pass
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 2 * len(document)


def _is_clean(pods) -> bool:
    return "\\ud" not in json.dumps(pods)


def test_a_list_of_nothing():
    """Go writes null for it."""
    for written in (b'{"items":null}', b'{"items": [ ] }', b' {"kind":"PodList","items":[]}\n'):
        assert list(iterate_items(written)) == []


def test_a_later_list_may_report_more_around_its_items():
    """An unknown value of this file must not lock all users out."""
    written = b'{"kind":5,"metadata":{"items":[7],"shard":{"a":"}]"}},"items":[1,[2]],"more":[{}]}'
    assert list(iterate_items(written)) == [1, [2]]


@pytest.mark.parametrize(
    "document",
    [
        *(b"", b"{", b"[]", b"null", b"{}", b"5", b'"items"', b'{"items"}', b'{"items":}'),
        *(b'{"items":5}', b'{"items":{}}', b'{"items":nul}', b'{"items":[}', b'{"items":[1}'),
        *(
            b'{"items":[1 2]}',
            b'{"items":[1:2]}',
            b'{"items":[1,]}',
            b'{"items":[,1]}',
            b'{"items":[1]',
            b'{"items":[',
        ),
        *(b'{"items":[1]}}', b'{"items":[1]} x', b'{"items":[1],"items":[2]}', b'{"items":null'),
        *(
            b'{"items":[1],}',
            b'{,"items":[]}',
            b'{"a":1 "items":[]}',
            b"{items:[]}",
            b'{"a","items":[]}',
        ),
        *(b'{"metadata":{"items":[]}}', b"\xff", b'{"items":["\xff"]}', b"\x1f\x8b\x08"),
        *(b'{"items":[' + b"[" * 100_000, b'{"items":[' + b"9" * 10_000 + b"]}"),
        b'{"items":[tru]}',
    ],
)
def test_what_is_no_list_is_noticed(document):
    """An answer that is cut or doubled must not look like a short one."""
    with pytest.raises(PodListError):
        list(iterate_items(document))
