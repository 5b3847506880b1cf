"""Ports of the page against the chart."""

import re

from tools.packages import ROOT
from tools.reference import network_ports

TEMPLATES = ROOT / "charts/virtual-cluster/templates"


def test_each_container_port_of_the_chart_is_on_the_page():
    text = "".join(path.read_text() for path in sorted(TEMPLATES.iterdir()))
    found = {int(number) for number in re.findall(r"containerPort: (\d+)", text)}
    assert found
    assert found <= {each.number for each in network_ports.PORTS}
