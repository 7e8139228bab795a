"""The known causes and what to do about each: where the explanation of slow requests leads."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from controlplane.telemetry.query.remedies import of_components, remedies


def causes(request: HttpRequest) -> HttpResponse:
    found = {"remedies": remedies().values(), "components": of_components().values()}
    return render(request, "dashboard/causes.html", found)
