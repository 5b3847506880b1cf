"""Logs, metrics and probes. Knows neither Kubernetes nor tenants, and imports no web framework."""
