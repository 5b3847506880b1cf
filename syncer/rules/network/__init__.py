"""Rules of Services, EndpointSlices, Ingresses and NetworkPolicies."""
