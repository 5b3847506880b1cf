"""Removed API versions in use, from the metric of the API server."""

import itertools

import pytest

from kubectl_vc.upgrade import deprecated_apis
from kubectl_vc.upgrade.deprecated_apis import DeprecatedApi, UsageReport, UsedApi
from kubeio import errors

FLOWS = DeprecatedApi("flowcontrol.apiserver.k8s.io", "v1beta3", "flowschemas", "1.36")


def sample(api=FLOWS, value="1", **more):
    labels = {
        "group": api.group,
        "removed_release": api.removed_release,
        "resource": api.resource,
        "subresource": "",
        "version": api.version,
        **more,
    }
    inside = ",".join(f'{name}="{text}"' for name, text in labels.items())
    return f"apiserver_requested_deprecated_apis{{{inside}}} {value}"


@pytest.mark.parametrize(
    ("line", "wanted", "found"),
    [
        (sample(), "1.36", [FLOWS]),
        (sample(), "1.36.4", [FLOWS]),
        (sample(), "1.37", [FLOWS]),
        (sample(), "1.35", []),
        (sample(), "", []),
        (sample(value="0"), "1.36", []),
        (sample(removed_release=""), "1.36", []),
        (sample(subresource="status"), "1.36", [FLOWS]),
        ("# HELP apiserver_requested_deprecated_apis gauge", "1.36", []),
        ('apiserver_other{group="a"} 1', "1.36", []),
    ],
)
def test_the_metric(line, wanted, found):
    assert deprecated_apis.parse_removed(f"a 1\n{line}\n{line}\n", wanted) == found


def test_a_name_that_is_no_path_segment_is_left_out():
    (found,) = deprecated_apis.parse_removed(sample(resource="../../secrets"), "1.36")
    assert found.resource == ""


class Tenant:
    """A tenant's API with one metric and a list."""

    def __init__(self, page=None, *, start="1", metric=""):
        self.page, self.start, self.metric = page, start, metric

    async def __aenter__(self):
        """Connect."""
        return self

    async def __aexit__(self, *_):
        """Disconnect."""

    async def raw(self, _method, path, **_):
        """Return the metrics."""
        assert path == "/metrics"
        if self.start is None:
            raise errors.Unavailable("no answer")
        return f"{self.metric or sample()}\nprocess_start_time_seconds {self.start}\n".encode()

    async def list(self, resource, **_):
        """Return the objects of the removed version."""
        assert resource.build_path() == "/apis/flowcontrol.apiserver.k8s.io/v1beta3/flowschemas"
        if self.page is None:
            raise errors.Unavailable("no answer")
        return self.page


@pytest.mark.parametrize(
    ("page", "count", "words"),
    [
        ({"items": []}, 0, "0 stored objects"),
        ({"items": [{}], "metadata": {"remainingItemCount": 12}}, 13, "13 stored objects"),
        (None, None, "unknown number of stored objects"),
    ],
)
async def test_stored_objects_are_counted_where_they_can_be_read(page, count, words):
    found = await deprecated_apis.fetch_usage(lambda: Tenant(page), "1.36", servers=1)
    assert found == UsageReport((UsedApi(FLOWS, count),), 1, 1)
    (line,) = deprecated_apis.format_used_apis(found.used)
    assert words in line
    assert "flowschemas.v1beta3.flowcontrol.apiserver.k8s.io: removed in 1.36" in line


def connections(*starts):
    """Return a function that connects to the replicas with these starts in turn, over and over."""
    following = itertools.cycle(starts)

    def connect():
        start = next(following)
        return Tenant({"items": []}, start=start, metric=sample() if start == "3" else "other 1")

    return connect


@pytest.mark.parametrize(
    ("starts", "used", "read"),
    [
        # Only the third replica was asked for the removed version.
        (["1", "1", "2", "3"], (FLOWS,), 3),
        (["1", "2"], (), 2),
        (["1"], (), 1),
        (["1", None], (), 1),
        ([""], (), 1),
    ],
)
async def test_each_replica_is_read_or_counted_as_not_read(starts, used, read):
    found = await deprecated_apis.fetch_usage(connections(*starts), "1.36", servers=3)
    assert tuple(each.api for each in found.used) == used
    assert (found.servers_read, found.servers) == (read, 3)


async def test_a_tenant_that_does_not_answer_is_an_error():
    with pytest.raises(errors.Unavailable):
        await deprecated_apis.fetch_usage(connections(None), "1.36", servers=3)


def test_the_report_has_what_was_not_read():
    *lines, last = deprecated_apis.describe_usage(UsageReport((), 3, 3))
    assert lines == [
        "Removed API versions in use: none was requested since the start of 3 of 3 API servers"
    ]
    assert last == "  Objects of versions that no client has requested are not counted."
    report = deprecated_apis.describe_usage(UsageReport((UsedApi(FLOWS, 1),), 1, 3))
    assert report[0].startswith("Removed API versions in use, from 1 of 3 API servers.")
    assert report[2] == "  The other API servers were not reached. Run the command again."
    assert report[3] == last
