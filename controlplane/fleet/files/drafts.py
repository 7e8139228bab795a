"""Forms and actions of the admin where a team wants approvals: what they change is proposed, and is not in force."""

from collections.abc import Callable
from functools import partial
from typing import Any

from django.contrib import messages
from django.contrib.admin.utils import unquote
from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse

from controlplane.accounts import rights
from controlplane.accounts.admin_parts import RuledAdmin
from controlplane.fleet.files import approval, proposals


class DraftsChanges(RuledAdmin):
    """Saving, deleting and actions. What is in no document, such as a purge, is in force all the same."""

    def changeform_view(
        self, request: HttpRequest, object_id: str | None = None, form_url: str = "", extra_context: Any = None
    ) -> Any:
        row = self.get_object(request, unquote(object_id)) if object_id and request.method == "GET" else None
        if row is not None and (teams := approval.wanting([rights.owned(row)])):
            words = f"{' and '.join(teams)} wants approvals: what you save or delete here becomes a proposal, and is not in force."
            messages.info(request, words)
        return self._drafted(request, partial(super().changeform_view, request, object_id, form_url, extra_context))

    def delete_view(self, request: HttpRequest, object_id: str, extra_context: Any = None) -> Any:
        return self._drafted(request, partial(super().delete_view, request, object_id, extra_context))

    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> Any:
        return self._drafted(request, partial(super().changelist_view, request, extra_context))

    def _drafted(self, request: HttpRequest, view: Callable[[], HttpResponse]) -> HttpResponse:
        if request.method != "POST":
            return view()
        refused = ""
        try:
            with proposals.drafted(request.user.get_username()) as draft:
                response = view()
        except ValidationError as error:
            refused = "; ".join(error.messages)
        if not refused and draft.proposal is None:
            return response
        list(messages.get_messages(request))  # of the view, which are taken: they say that it is done
        if refused or draft.proposal is None:
            messages.error(request, f"Not saved, and it cannot be proposed: {refused}")
            return HttpResponseRedirect(request.get_full_path())
        messages.success(request, "Nothing is in force yet: the change waits here until another person approves it.")
        return HttpResponseRedirect(reverse("fleet-proposal", args=[draft.proposal.pk]))
