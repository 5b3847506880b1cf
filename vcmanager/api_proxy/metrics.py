"""Metrics of `vc-manager api-proxy`. HAProxy has its own, of connections and bytes."""

from prometheus_client import Counter, Gauge

HOSTS = Gauge("vc_api_proxy_hosts", "Host names in the map of the API proxy in this pod.")
MAP_FAILURES = Counter(
    "vc_api_proxy_map_failures",
    "Turns in which the map of HAProxy could not be read or changed.",
)
