"""Program `vc-manager api-proxy`: keeps the map of HAProxy equal to the host names of tenants.

It runs beside HAProxy in the same pod. HAProxy passes TLS through unread, so no part of the proxy
has a key of a tenant.
"""
