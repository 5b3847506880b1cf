"""Removed API versions in use, from the metric of the API server."""

import pytest

from kubectl_vc.upgrade import deprecated_apis
from kubectl_vc.upgrade.deprecated_apis import DeprecatedApi, UsedApi
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

    def __init__(self, page=None):
        self.page = page

    async def raw(self, _method, path, **_):
        """Return the metrics."""
        assert path == "/metrics"
        return f"{sample()}\n".encode()

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
    found = await deprecated_apis.fetch_used_apis(Tenant(page), "1.36")
    assert found == [UsedApi(FLOWS, count)]
    (line,) = deprecated_apis.format_used_apis(found)
    assert words in line
    assert "flowschemas.v1beta3.flowcontrol.apiserver.k8s.io: removed in 1.36" in line
