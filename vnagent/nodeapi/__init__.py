"""Node API: what a tenant reads of a whole node."""
