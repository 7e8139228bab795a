"""Destinations, deliveries and the secrets of inbound webhooks in the admin. No secret is ever shown."""

from datetime import timedelta
from typing import Any
from uuid import uuid4

from django.contrib import admin, messages
from django.db import transaction
from django.db.models import OuterRef, QuerySet, Subquery
from django.http import HttpRequest
from django.utils import timezone

from controlplane.accounts import rights
from controlplane.accounts.admin_parts import ReadOnlyAdmin, RuledAdmin
from controlplane.accounts.core.actions import ADMINISTER, EDIT_DESTINATIONS, RESPOND
from controlplane.incidents.notify.core.notice import Notice, NoticeAction
from controlplane.incidents.notify.delivery import outbox
from controlplane.incidents.notify.delivery.core.route import Target
from controlplane.incidents.notify.delivery.forms import DestinationForm, HookSecretForm
from controlplane.incidents.notify.delivery.models import Delivery, Destination, HookEvent, HookSecret
from controlplane.incidents.notify.delivery.send.claim import send_again


@admin.register(Destination)
class DestinationAdmin(RuledAdmin):
    edits = EDIT_DESTINATIONS
    form = DestinationForm
    list_display = ["name", "last", "kind", "team", "takes", "fallback", "enabled"]
    list_filter = ["kind", "enabled", "team"]
    search_fields = ["name", "team__name"]
    autocomplete_fields = ["team", "fallback"]
    actions = ["send_test_page"]
    fieldsets = [
        (None, {"fields": ["name", "kind", "url", "secret", "enabled"]}),
        ("Takes", {"fields": ["team", "severities", "takes_changes", "takes_audit"]}),
        ("When it does not answer", {"fields": ["fallback", "fallback_after_s"]}),
    ]

    def get_queryset(self, request: HttpRequest) -> QuerySet[Destination]:
        sent = Delivery.objects.filter(destination=OuterRef("pk")).order_by("-enqueued_at")
        queryset: QuerySet[Destination] = super().get_queryset(request)
        return queryset.annotate(
            last_state=Subquery(sent.values("state")[:1]), last_at=Subquery(sent.values("enqueued_at")[:1])
        )

    @admin.display(description="last delivery")
    def last(self, destination: Any) -> str:
        if destination.last_at is None:
            return "nothing sent yet"
        return f"{Delivery.State(destination.last_state).label.lower()}, {destination.last_at:%Y-%m-%d %H:%M} UTC"

    @admin.display(description="takes")
    def takes(self, destination: Destination) -> str:
        return ", ".join(destination.severities) or "only as a fallback"

    def save_model(self, request: HttpRequest, obj: Destination, form: Any, change: bool) -> None:
        super().save_model(request, obj, form, change)
        if form.warning:
            self.message_user(request, form.warning, messages.WARNING)
        if form.new_secret:
            self.message_user(
                request, f"Copy the signing secret now, it is not shown again: {form.new_secret}", messages.WARNING
            )

    @admin.action(description="Send a test page, and resolve it", permissions=["change"])
    def send_test_page(self, request: HttpRequest, queryset: QuerySet[Destination]) -> None:
        """Through the outbox, as any page, but to this destination whatever it takes."""
        for destination in queryset:
            send_test(destination, request.user.get_username())
        self.message_user(
            request,
            f"Test pages to {queryset.count()} destinations are queued: Deliveries shows the answers.",
        )


@transaction.atomic
def send_test(destination: Destination, by: str) -> str:
    """A trigger and its resolve; returns their key."""
    key = f"weir-test-{uuid4()}"
    steps: tuple[NoticeAction, ...] = ("trigger", "resolve")
    for sequence, action in enumerate(steps, 1):
        notice = Notice(
            action=action,
            key=key,
            sequence=sequence,
            at=timezone.now(),
            summary=f"Test page from Weir, sent by {by}: nothing is wrong, and it resolves itself",
            severity="info",
            source="weir",
            kind="test",
        )
        outbox.write(notice, [Target(destination.endpoint_id, destination.pk)])
    return key


@admin.register(Delivery)
class DeliveryAdmin(ReadOnlyAdmin):
    acts = {"send_again": RESPOND}
    list_display = ["key", "action", "destination", "state", "attempts", "enqueued_at", "took", "error"]
    list_filter = ["state", "action", "destination"]
    search_fields = ["key"]
    exclude = ["endpoint", "claim"]
    actions = ["send_again"]
    list_select_related = ["destination"]

    @admin.display(description="took")
    def took(self, delivery: Delivery) -> timedelta | None:
        return delivery.settled_at - delivery.enqueued_at if delivery.settled_at else None

    def has_send_again_permission(self, request: HttpRequest) -> bool:
        return rights.may_anywhere(request.user, RESPOND)

    @admin.action(description="Send again what was refused", permissions=["send_again"])
    def send_again(self, request: HttpRequest, queryset: QuerySet[Delivery]) -> None:
        sent = sum(send_again(delivery) for delivery in queryset)
        left = queryset.count() - sent
        self.message_user(
            request, f"{sent} are sent again" + (f"; {left} were not refused, or a later step was sent" if left else "")
        )


@admin.register(HookSecret)
class HookSecretAdmin(RuledAdmin):
    sees = ADMINISTER
    list_display = ["name", "enabled", "created_at"]
    form = HookSecretForm

    def get_fields(self, request: HttpRequest, obj: HookSecret | None = None) -> list[str]:
        return ["name", "enabled"] if obj else ["name", "secret", "enabled"]


@admin.register(HookEvent)
class HookEventAdmin(ReadOnlyAdmin):
    list_display = ["event_type", "key", "occurred_at", "received_at", "outcome"]
    list_filter = ["event_type"]
    search_fields = ["key", "event_id", "webhook_id"]
