"""Incidents: all of them, and one."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render

from controlplane.incidents.models import Incident


def incident(request: HttpRequest, number: int) -> HttpResponse:
    return render(request, "incidents/incident.html", {"incident": get_object_or_404(Incident, pk=number)})
