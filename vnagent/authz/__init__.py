"""Authentication and authorization of callers."""
