"""Access to a tenant's API: logins, host name, and kubeconfig Secrets for tools."""
