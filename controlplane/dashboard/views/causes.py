"""Lists the known causes with their remedies."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from controlplane.telemetry.query.remedies import component_remedies, remedies


def causes(request: HttpRequest) -> HttpResponse:
    context = {"remedies": remedies().values(), "components": component_remedies().values()}
    return render(request, "dashboard/causes.html", context)
