"""Policies in the admin: revisions are proposed here, and taken from state to state by buttons. Nothing here can be deleted."""

from typing import Any

from django import forms
from django.contrib import admin, messages
from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import get_object_or_404
from django.urls import URLPattern, path, reverse
from django.utils.html import format_html
from django.views.decorators.http import require_POST

from controlplane.accounts import rights
from controlplane.accounts.admin_parts import KeptAdmin, ReadOnlyAdmin, ShownInline
from controlplane.accounts.core.actions import CHANGE_POLICIES
from controlplane.policy.core.spec import Scaling
from controlplane.policy.models import (
    Action,
    DecisionChange,
    DecisionRecord,
    Override,
    Pause,
    PolicyRevision,
    RevisionEvent,
)
from controlplane.policy.revisions import buttons, pausing, previews, scaling_form, steps
from controlplane.policy.revisions.read import PolicyTextError, read_text, try_policy_of
from controlplane.policy.revisions.skeletons import SKELETONS, skeleton

MONOSPACE = "font-family: ui-monospace, SFMono-Regular, Menlo, Consolas, monospace"
WHO = [
    "author", "source", "label", "note", "created_at", "approved_by", "approved_at", "activated_by", "activated_at",
    "retirement_by", "retirement_at", "retired_by", "retired_at",
]  # fmt: skip


class RevisionForm(forms.ModelForm):
    """A text is checked as a whole, and each problem names its line."""

    text = forms.CharField(
        strip=False,
        widget=forms.Textarea(
            attrs={
                "rows": 28,
                "spellcheck": "false",
                "class": "weir-policy-text",
                "autocomplete": "off",
                "style": MONOSPACE,
            }
        ),
        help_text="YAML: kind, metadata and spec. Saving makes a draft, which decides nothing.",
    )

    class Meta:
        model = PolicyRevision
        fields = ["text", "note"]

    class Media:
        js = ["weir/policy_editor.js"]

    def clean_text(self) -> str:
        text = self.cleaned_data["text"].replace("\r\n", "\n")
        try:
            read_text(text)
        except PolicyTextError as error:
            raise ValidationError(
                [
                    f"Line {problem.mark.line}, column {problem.mark.column}: {problem.message}"
                    for problem in error.problems
                ]
            ) from None
        return str(text)


class EventInline(ShownInline):
    """Who took which step, and when."""

    model = RevisionEvent
    fields = readonly_fields = ["at", "who", "what", "note"]


@admin.register(PolicyRevision)
class PolicyRevisionAdmin(KeptAdmin):
    edits = CHANGE_POLICIES
    form = RevisionForm
    list_display = [
        "name", "number", "kind", "state", "team", "author", "created_at", "approved_by", "activated_at", "note",
    ]  # fmt: skip
    list_filter = ["state", "kind", "team"]
    search_fields = ["name", "text", "author", "team"]
    inlines = [EventInline]
    readonly_fields = ["yaml"]
    fieldsets_of_new = [(None, {"fields": ["text", "note"]})]
    fieldsets_of_stored = [
        (None, {"fields": ["name", "kind", "number", "state", "team", "restores"]}),
        ("Text", {"fields": ["yaml"]}),
        ("Who", {"fields": WHO}),
        ("Preview", {"fields": ["previewed_at", "preview"]}),
    ]

    @admin.display(description="YAML")
    def yaml(self, revision: PolicyRevision) -> str:
        return format_html("<pre><code>{}</code></pre>", revision.text)

    def get_fieldsets(self, request: HttpRequest, obj: PolicyRevision | None = None) -> Any:
        if obj is None and _as_fields(request):
            return scaling_form.fieldsets()
        return self.fieldsets_of_stored if obj else self.fieldsets_of_new

    def get_form(
        self, request: HttpRequest, obj: PolicyRevision | None = None, change: bool = False, **kwargs: Any
    ) -> Any:
        """The fields of a scaling policy are all declared by its form: none is the model's but the note."""
        if obj is None and _as_fields(request):
            return scaling_form.ScalingForm
        return super().get_form(request, obj, change, **kwargs)

    def get_inlines(self, request: HttpRequest, obj: PolicyRevision | None = None) -> Any:
        return [EventInline] if obj else []

    def get_changeform_initial_data(self, request: HttpRequest) -> dict[str, Any]:
        kind, before = request.GET.get("kind", ""), _chosen(request)
        if _as_fields(request):
            policy = try_policy_of(before) if before else None
            if isinstance(policy, Scaling):
                metadata = policy.metadata
                named = {"name": metadata.name, "team": metadata.team, "description": metadata.description}
                return scaling_form.values_of(policy.spec, named)
            return scaling_form.values_of(None, {})
        if before is not None:
            return {"text": before.text}
        return {"text": skeleton(kind if kind in SKELETONS else "Scaling")}

    def add_view(
        self, request: HttpRequest, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        before = _chosen(request)
        kind = before.kind if before else request.GET.get("kind", "Scaling")
        begun = f"from={before.pk}" if before else f"kind={kind if kind in SKELETONS else 'Scaling'}"
        shown = {
            "kinds": list(SKELETONS),
            "as_fields": _as_fields(request),
            "other_way": f"?{begun}" if _as_fields(request) else f"?{begun}&as=fields",
            "has_fields": begun == "kind=Scaling" or (before is not None and before.kind == "Scaling"),
            "loses_comments": bool(before and "#" in before.text),
            **(extra_context or {}),
        }
        response: HttpResponse = super().add_view(request, form_url, shown)
        return response

    def owned_after(self, row: PolicyRevision, form: Any) -> object:
        """The text has the name too; a form of a scaling policy has written it."""
        return PolicyRevision(name=read_text(row.text).name, text=row.text)

    def save_model(self, request: HttpRequest, obj: PolicyRevision, form: Any, change: bool) -> None:
        guard = rights.guard(request.user, CHANGE_POLICIES)
        proposed = steps.propose(obj.text, guard=guard, who=request.user.get_username(), source="admin", note=obj.note)
        obj.__dict__.update(proposed.revision.__dict__)
        if proposed.created:
            self.message_user(request, f"{obj} is a draft, and decides nothing yet.", messages.SUCCESS)
        else:
            self.message_user(request, f"{obj} has this text already: nothing was changed.", messages.WARNING)

    def response_add(
        self, request: HttpRequest, obj: PolicyRevision, post_url_continue: str | None = None
    ) -> HttpResponse:
        """To the draft's own page, where its steps are."""
        return HttpResponseRedirect(reverse("admin:policy_policyrevision_change", args=[obj.pk]))

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        revision = self.get_object(request, object_id)
        shown = {**self._steps(request, revision), **(extra_context or {})} if revision else extra_context
        response: HttpResponse = super().change_view(request, object_id, form_url, shown)
        return response

    def get_urls(self) -> list[URLPattern]:
        wrap = self.admin_site.admin_view
        return [
            path("<int:number>/step/<str:step>", wrap(require_POST(self.take_step)), name="policy_policyrevision_step"),
            *super().get_urls(),
        ]

    def take_step(self, request: HttpRequest, number: int, step: str) -> HttpResponse:
        """One of the buttons on a revision's page."""
        revision = buttons.press(request, get_object_or_404(PolicyRevision, pk=number), step)
        return HttpResponseRedirect(reverse("admin:policy_policyrevision_change", args=[revision.pk]))

    def _steps(self, request: HttpRequest, revision: PolicyRevision) -> dict[str, Any]:
        return {
            "buttons": buttons.buttons_of(request, revision),
            "steps_at": reverse("admin:policy_policyrevision_step", args=[revision.pk, "_"])[:-1],
            "may_propose": rights.may(request.user, CHANGE_POLICIES, revision),
            "wanting": " and ".join(steps.facts_of(revision).wanting),
            "job": previews.newest_job(revision),
        }


def _as_fields(request: HttpRequest) -> bool:
    """Whether a new scaling policy is entered as fields. Others have lists of rules and steps, which are clearer as a text."""
    return request.GET.get("as") == "fields"


def _chosen(request: HttpRequest) -> PolicyRevision | None:
    """The revision that a new one begins with."""
    number = request.GET.get("from", "")
    return PolicyRevision.objects.filter(pk=number).first() if number.isdecimal() and len(number) < 19 else None


class PausingAdmin(KeptAdmin):
    """Made here, and ended by an action. A record stays as it is."""

    edits = CHANGE_POLICIES
    actions = ["end_now"]
    readonly_fields = ["author", "ended_by", "ended_at"]

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        pausing.keep(obj, request.user.get_username(), at_once=rights.is_administrator(request.user))

    def has_end_permission(self, request: HttpRequest) -> bool:
        return rights.may_anywhere(request.user, CHANGE_POLICIES)

    @admin.action(description="End now", permissions=["end"])
    def end_now(self, request: HttpRequest, queryset: Any) -> None:
        ended = sum(pausing.end(row, request.user.get_username()) for row in queryset)
        self.message_user(
            request, f"{ended} ended; the others were over already." if ended < len(queryset) else f"{ended} ended."
        )


@admin.register(Pause)
class PauseAdmin(PausingAdmin):
    list_display = ["scope", "target", "starts_at", "ends_at", "author", "reason", "ended_by", "ended_at"]
    list_filter = ["scope"]
    search_fields = ["target", "author", "reason"]
    fields = ["scope", "target", "starts_at", "ends_at", "reason"]


@admin.register(Override)
class OverrideAdmin(PausingAdmin):
    list_display = [
        "__str__", "tier", "starts_at", "ends_at", "author", "reason", "waits", "approved_by", "ended_by", "ended_at",
    ]  # fmt: skip
    search_fields = ["pool", "model", "author", "reason"]
    fieldsets = [
        ("A pool's replicas", {"fields": ["pool", "replicas"]}),
        ("Or a step of a model's ladder", {"fields": ["model", "tier", "step"]}),
        ("Until when, and why", {"fields": ["starts_at", "ends_at", "reason"]}),
    ]


class ChangeInline(ShownInline):
    model = DecisionChange
    fields = readonly_fields = [
        "kind", "subject", "pool", "model", "tier", "policy", "shadow", "before", "after", "reason",
    ]  # fmt: skip


@admin.register(DecisionRecord)
class DecisionRecordAdmin(ReadOnlyAdmin):
    list_display = ["at", "key", "changed", "version", "holder", "took_s"]
    list_filter = ["changed"]
    search_fields = ["key"]
    inlines = [ChangeInline]


@admin.register(Action)
class ActionAdmin(ReadOnlyAdmin):
    list_display = ["started_at", "pool", "kind", "before", "after", "step", "accepted_at", "ended_at", "outcome"]
    list_filter = ["kind", "step", "pool"]
