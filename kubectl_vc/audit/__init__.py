"""`kubectl vc audit`: proof by packets and objects that a tenant is isolated."""
