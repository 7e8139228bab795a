from django.urls import path

from controlplane.api.app import api
from controlplane.api.problems import no_endpoint

urlpatterns = [
    path("", api.urls),
    path("<path:rest>", no_endpoint),
]
