from django.urls import path, re_path

from controlplane.api.app import api
from controlplane.api.problems import no_endpoint

urlpatterns = [
    path("", api.urls),
    re_path(r"^(?P<rest>[\s\S]+)$", no_endpoint),  # also where the rest has line breaks, which `path:` does not match
]
