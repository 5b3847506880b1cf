"""Stop, sleep, pause and scheduled end of a tenant's control plane."""
