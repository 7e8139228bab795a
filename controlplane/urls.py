from django.contrib import admin
from django.contrib.auth.decorators import login_not_required
from django.urls import URLPattern, URLResolver, include, path
from django.views.generic import RedirectView

from controlplane.incidents.act import pagerduty_events
from controlplane.web import health, metrics

handler404 = "controlplane.web.not_found.not_found"
handler500 = "controlplane.web.failed.failed"

urlpatterns: list[URLPattern | URLResolver] = [
    path("healthz", health.healthz, name="healthz"),
    path("readyz", health.readyz, name="readyz"),
    path("metrics", metrics.metrics, name="metrics"),
    path("hooks/pagerduty", pagerduty_events.pagerduty, name="pagerduty-hook"),
    path("", include("controlplane.accounts.urls")),
    # one way in, and one to change a password
    path("admin/login/", login_not_required(RedirectView.as_view(pattern_name="account_login", query_string=True))),
    path("admin/password_change/", RedirectView.as_view(pattern_name="account_change_password")),
    path("admin/", admin.site.urls),
    path("api/v1/", include("controlplane.api.urls")),
    path("", include("controlplane.dashboard.urls")),
]
