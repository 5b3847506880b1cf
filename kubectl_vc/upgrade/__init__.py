"""`kubectl vc upgrade`: another ClusterVersion for a tenant, checked and explained first."""
