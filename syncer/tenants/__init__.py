"""One tenant's connection, its sessions, and what they remember."""
