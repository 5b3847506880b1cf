"""Statistics, tables and pictures of results."""
