"""Connections of a user's shell to a tenant: kubeconfig context, forwarder and commands."""
