"""Client configuration: kubeconfigs, credentials, endpoints."""
