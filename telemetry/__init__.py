"""Logs, metrics and probes; knows neither Kubernetes nor tenants, and imports no web framework."""
