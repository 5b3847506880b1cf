"""`kubectl vc ui`: pages on loopback about tenants, served with the user's own rights."""
