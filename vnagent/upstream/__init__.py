"""Upstreams of a call: kubelets and API servers."""
