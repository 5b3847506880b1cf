"""Trust and permissions of node agents."""
