"""What a tenant control plane is made of: templates, and versions and controllers per minor.

Data and its loader; decides nothing and knows no tenant.
"""
