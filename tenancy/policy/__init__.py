"""Parts of a TenantPolicy that have a table of their own."""
