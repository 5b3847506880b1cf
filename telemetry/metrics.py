"""Every metric of the product, declared once.

Well-known names are controller-runtime's and client-go's, so that existing dashboards work. Labels
are bounded: never the name of an object. Hazard: a label value made from input grows without end.
"""

from prometheus_client import Counter

REQUESTS = Counter(
    "rest_client_requests",
    "Requests to API servers, by method and status code.",
    ["method", "code"],
)
