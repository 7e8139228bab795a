"""Buttons on a policy's page: each takes its revision a step further, or rolls back."""

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import get_object_or_404
from django.urls import reverse
from django.views.decorators.http import require_POST

from controlplane.dashboard.core.screen import link_query
from controlplane.policy.models import PolicyRevision
from controlplane.policy.revisions.buttons import press


@require_POST
def take_step(request: HttpRequest, name: str, number: int, step: str) -> HttpResponse:
    revision = press(request, get_object_or_404(PolicyRevision, name=name, number=number), step)
    return HttpResponseRedirect(f"{reverse('policy', args=[name])}?{link_query([('revision', str(revision.number))])}")
