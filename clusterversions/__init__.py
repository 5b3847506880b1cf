"""What a tenant control plane is made of, per Kubernetes minor: templates, versions, controllers.

Data and its loader; decides nothing and knows no tenant.
"""
