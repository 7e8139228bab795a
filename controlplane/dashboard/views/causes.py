"""The known causes and what to do about each: where the explanation of slow requests leads."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from controlplane.telemetry.explain.remedies import remedies


def causes(request: HttpRequest) -> HttpResponse:
    return render(request, "dashboard/causes.html", {"remedies": remedies().values()})
