"""A tenant's metrics: known families, own pods, text that is rewritten."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from tests.support.vnagent import kubelet_answers
from tests.support.vnagent.kubelet_answers import TWO, owned, uid
from vnagent.nodeapi.cpu_counters import PodUsage
from vnagent.nodeapi.resource_metrics import filter_metrics
from vnagent.protocol.http_heads import InvalidResponseError

SPACE = "default-b41df0-one-web"
END = "resource_scrape_error 0\n"
ANSWER = f"""\
# HELP container_cpu_usage_seconds_total [STABLE] Cumulative cpu time consumed by the container
# TYPE container_cpu_usage_seconds_total counter
container_cpu_usage_seconds_total{{container="main",namespace="{SPACE}",pod="shop"}} 1.25 1700000000123
container_cpu_usage_seconds_total{{container="mesh",namespace="{SPACE}",pod="shop"}} 999999 1
container_cpu_usage_seconds_total{{container="main",namespace="default-b41df0-two-web",pod="shop"}} 999999 1
container_cpu_usage_seconds_total{{container="etcd",namespace="kube-system",pod="shop"}} 999999 1
container_memory_working_set_bytes{{container="main",namespace="{SPACE}",pod="shop"}} 1.048576e+06 1
container_start_time_seconds{{container="main",namespace="{SPACE}",pod="shop"}} 1.7e+09
container_swap_limit_bytes{{container="main",namespace="{SPACE}",pod="shop"}} 999999 1
machine_cpu_cores 999999
node_cpu_usage_seconds_total 999999 1700000000500
node_memory_working_set_bytes 999999 1700000000500
node_swap_usage_bytes 999999 1
pod_cpu_usage_seconds_total{{namespace="{SPACE}",pod="shop"}} 1.5 1700000000123
pod_cpu_usage_seconds_total{{namespace="{SPACE}",pod="cart"}} 2 1700000000456
pod_cpu_usage_seconds_total{{namespace="default-b41df0-two-web",pod="shop"}} 999999 1800000000123
pod_memory_working_set_bytes{{namespace="{SPACE}",pod="shop"}} 1000 1700000000123
pod_swap_usage_bytes{{namespace="{SPACE}",pod="shop"}} 7 1700000000123
pod_swap_usage_bytes{{namespace="default-b41df0-two-web",pod="shop"}} 999999 1700000000123
pod_memory_working_set_bytes{{namespace="kube-system",pod="shop"}} 999999 1700000000123
{END}"""  # noqa: E501 - as the kubelet writes it


def added(used):
    """Count nothing but what is there."""
    return sum(one.nanoseconds for one in used.values())


def reduced(text: str, *pods, total=added) -> str:
    """Return what a tenant with these pods gets."""
    return filter_metrics(text.encode(), pods, total).decode()


def samples(text: str) -> list[tuple[str, dict[str, str], float]]:
    """Read metrics as a scraper does."""
    return [
        (sample.name, sample.labels, sample.value)
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    ]


def lines(text: str) -> list[str]:
    """Return the lines with figures."""
    return [line for line in text.splitlines() if not line.startswith("#")]


def test_own_pods_pass_and_the_node_is_their_sum():
    """Names, values and times of the tenant's pods, and nothing of others, sums included."""
    got = reduced(ANSWER, owned(), owned(3, name="cart"))
    main = '{container="main",namespace="web",pod="shop"}'
    assert lines(got) == [
        f"container_cpu_usage_seconds_total{main} 1.25 1700000000123",
        f"container_memory_working_set_bytes{main} 1.048576e+06 1",
        f"container_start_time_seconds{main} 1.7e+09",
        "node_cpu_usage_seconds_total 3.5 1700000000456",
        "node_memory_working_set_bytes 1000.0 1700000000123",
        "node_swap_usage_bytes 7.0 1700000000123",
        'pod_cpu_usage_seconds_total{namespace="web",pod="shop"} 1.5 1700000000123',
        'pod_cpu_usage_seconds_total{namespace="web",pod="cart"} 2 1700000000456',
        'pod_memory_working_set_bytes{namespace="web",pod="shop"} 1000 1700000000123',
        'pod_swap_usage_bytes{namespace="web",pod="shop"} 7 1700000000123',
        "resource_scrape_error 0",
    ]
    assert not [word for word in (*kubelet_answers.SECRETS, "machine", "limit") if word in got]
    assert len(samples(got)) == 11


def test_the_total_is_asked_for_by_super_uid():
    """Its value is that of the node."""
    seen = []
    got = reduced(ANSWER, owned(), total=lambda used: seen.append(used) or 9_000_000_000)
    assert seen == [{uid(1): PodUsage(1_500_000_000, 1700000000.123)}]
    assert "node_cpu_usage_seconds_total 9.0 1700000000123\n" in got


def test_equal_names_in_two_namespaces_stay_apart():
    """A tenant's own, that is."""
    other = owned(4, tenant_namespace="lab", super_namespace="default-b41df0-one-lab")
    text = ANSWER.replace("default-b41df0-two-web", "default-b41df0-one-lab")
    got = reduced(text, owned(), other)
    assert 'pod_cpu_usage_seconds_total{namespace="web",pod="shop"} 1.5 1700000000123\n' in got
    assert 'pod_cpu_usage_seconds_total{namespace="lab",pod="shop"} 999999 180' in got


def test_another_tenant_gets_its_own():
    """By its pods alone."""
    guest = owned(2, vc_uid=TWO, super_namespace="default-b41df0-two-web")
    got = reduced(ANSWER, guest)
    assert "1.25" not in got
    assert 'container_cpu_usage_seconds_total{container="main",namespace="web",pod="shop"}' in got


def test_without_pods_there_is_the_end_alone():
    """No figure of the node then: zero would be one."""
    assert lines(reduced(ANSWER)) == ["resource_scrape_error 0"]


FORGED = [
    # Another's pod in words that a careless reader takes for ours.
    f'pod_cpu_usage_seconds_total{{namespace="x\\",namespace=\\"{SPACE}",pod="shop"}} 999999',
    f'pod_cpu_usage_seconds_total{{namespace="kube-system",pod="shop\\" namespace=\\"{SPACE}"}} 9',
    f'pod_cpu_usage_seconds_total{{namespace="{SPACE}\\n",pod="shop"}} 999999',
    # Labels twice, too many, too few, of another name.
    f'pod_cpu_usage_seconds_total{{namespace="k",namespace="{SPACE}",pod="shop"}} 999999',
    f'pod_cpu_usage_seconds_total{{namespace="{SPACE}",pod="shop",uid="1"}} 999999',
    f'pod_cpu_usage_seconds_total{{namespace="{SPACE}"}} 999999',
    f'pod_cpu_usage_seconds_total{{namespace="{SPACE}",Pod="shop"}} 999999',
    f'container_cpu_usage_seconds_total{{container="",namespace="{SPACE}",pod="shop"}} 999999',
    "pod_cpu_usage_seconds_total 999999",
    'resource_scrape_error{namespace="kube-system"} 999999',
    # Families and values that are not on the list.
    f'pod_cpu_usage_seconds_total_{{namespace="{SPACE}",pod="shop"}} 999999',
    f'kubelet_volume_stats{{namespace="{SPACE}",pod="shop"}} 999999',
    *(
        f'pod_swap_usage_bytes{{namespace="{SPACE}",pod="shop"}} {value}'
        for value in ("NaN", "+Inf", "-1", "0x10", "1_0", "999999,1", "1e999", "\uff11")
    ),
]


@pytest.mark.parametrize("line", FORGED)
def test_forged_lines_do_not_pass(line):
    """Nor do they spoil what stands beside them."""
    got = reduced(f"{line}\n{END}", owned())
    assert lines(got) == ["resource_scrape_error 0"]


def test_a_duplicate_figure_is_dropped():
    """Two lists of one pod, or a forged one behind the true one: a scraper would take either."""
    line = f'pod_cpu_usage_seconds_total{{namespace="{SPACE}",pod="shop"}} '
    turned = f'pod_cpu_usage_seconds_total{{pod="shop",namespace="{SPACE}",}} '
    for second in (line, turned):
        got = reduced(f"{line}5\n{second}6\n{second}7\n{END}", owned())
        assert lines(got) == ["resource_scrape_error 0"]


def test_names_are_written_so_that_they_end_nowhere():
    """Were a kubelet to list such a pod, its name would still be one label."""
    odd = owned(name='shop",container="x\\', tenant_namespace='a"b')
    text = f'pod_swap_usage_bytes{{namespace="{SPACE}",pod="shop\\",container=\\"x\\\\"}} 5\n{END}'
    (_, (_, labels, value), _) = samples(reduced(text, odd))
    assert (labels, value) == ({"namespace": 'a"b', "pod": 'shop",container="x\\'}, 5)


@pytest.mark.parametrize(
    "document",
    [
        *(b"", b"\n", b"{}", b"<html>\n", b"\x1f\x8b\x08\n", b"\xff\n", b"resource_scrape_error 0"),
        *(b"# HELP\n", b"pod_cpu_usage_seconds_total\n" + END.encode(), b"a b c\n" + END.encode()),
        *(b'a{b="c} 1\n' + END.encode(), b'a{b="c"d="e"} 1\n' + END.encode()),
        *(
            b'a{b="\\x"} 1\n' + END.encode(),
            b"a{b=c} 1\n" + END.encode(),
            b"a 1\r\n" + END.encode(),
        ),
        *(b"a  1\n" + END.encode(), b" a 1\n" + END.encode(), b"a 1 x\n" + END.encode()),
        *(b'a 1 2 # {trace="x"} 1\n' + END.encode(), END.encode() + b"pod_swap_usage_bytes 5"),
    ],
)
def test_what_is_no_metrics_is_noticed(document):
    """Read in two ways, a line would be two figures. An empty answer would look like no pods."""
    with pytest.raises(InvalidResponseError):
        filter_metrics(document, [owned()], added)


SCRAPS = st.sampled_from(
    [*'"\\{},= \n\t#0', "shop", SPACE, "kube-system", 'namespace="', "pod", "999999", "e+", "\\n"]
)


@settings(max_examples=400)
@given(st.lists(st.tuples(st.integers(0, len(ANSWER)), SCRAPS, st.integers(0, 3)), max_size=4))
def test_damaged_answers_show_no_one_else(damage):
    """Whatever is read is the tenant's pods by its own names, in text that reads back."""
    text = ANSWER
    for at, scrap, size in damage:
        text = text[:at] + scrap + text[at + size :]
    try:
        got = reduced(text, owned())
    except InvalidResponseError:
        return
    for _, labels, _ in samples(got):
        assert labels.get("namespace", "web") == "web"
        assert labels.get("pod", "shop") == "shop"
        assert labels.get("container", "main") in ("main", "side")
