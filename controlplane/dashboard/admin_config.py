from django.contrib.admin.apps import AdminConfig


class WeirAdminConfig(AdminConfig):
    """Django's admin, with the site of `admin_site`."""

    default_site = "controlplane.dashboard.admin_site.WeirAdminSite"
