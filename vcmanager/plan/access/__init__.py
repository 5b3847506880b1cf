"""Plan of the access to a tenant's API: authentication configuration and kubeconfig Secrets."""
