"""Parts of a tenant control plane: templates, and versions and controllers per minor.

Data and its loader. Makes no decisions and knows no tenant.
"""
