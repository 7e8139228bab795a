"""Webhooks of batches and background responses, to the URL of their tenant, as OpenAI's client reads them."""

from datetime import timedelta
from pathlib import Path

import pytest
from django.core.exceptions import ValidationError
from openai import OpenAI

from controlplane.incidents.notify.delivery.core.outbound_address import allowed
from controlplane.incidents.notify.delivery.core.retry import Answer
from controlplane.incidents.notify.delivery.destinations.webhook import new_secret
from controlplane.lane.callbacks import Callbacks
from controlplane.lane.core import states
from controlplane.lane.models import Batch, Callback, CallbackSecret, TenantLimits
from controlplane.lane.objects.folder import Folder
from controlplane.lane.store import batches, callbacks, claims, jobs
from deploy.local.ports import LOOPBACK
from tests.support.lane.callback_receiver import CallbackReceiver
from tests.support.lane.stored import TENANT, answer, begun, do_chores, new_batch, new_job
from tests.support.wait import eventually

pytestmark = pytest.mark.django_db(transaction=True)


def ended(objects: Folder) -> dict[str, str]:
    """By name, what is said of the end of batches and responses that ended in every way."""
    out, worker = {}, claims.register()
    for ends_as in ("", states.INCOMPLETE, states.FAILED):
        job = new_job(objects, callback_url="")
        [line] = claims.claim(worker, 0, soonest=1)
        answer(objects, worker, [line], ends_as=ends_as)
        status = ends_as or states.COMPLETED
        assert jobs.response(jobs.read(TENANT, job.name, job.kind, objects))["status"] == status
        out[job.name] = f"response.{status}"
    for job in (new_job(objects, callback_url=""), begun(objects, 1)):
        batches.cancel(TENANT, job.name, job.kind)
        out[job.name] = f"{job.kind}.cancelled"
    failed, completed, expired = new_batch(objects, b"no line"), begun(objects, 1), begun(objects, 1)
    answer(objects, worker, claims.claim(worker, 1))
    Batch.objects.filter(pk=expired.pk).update(expires_at=claims.now())
    batches.expire()
    do_chores(objects)
    return out | {failed.name: "batch.failed", completed.name: "batch.completed", expired.name: "batch.expired"}


def test_a_tenants_url_gets_the_end_of_each_batch_and_response(home: Path, receiver: CallbackReceiver) -> None:
    objects, limits = Folder(home / "lane"), TenantLimits(tenant=TENANT, callback_url=receiver.url)
    with pytest.raises(ValidationError, match="secret of callbacks first"):
        limits.full_clean()
    secret = CallbackSecret(tenant=TENANT)
    secret.secret = signed_with = new_secret()
    secret.save()
    limits.full_clean()
    limits.save()
    wanted, sender = ended(objects), Callbacks(allowed([LOOPBACK]))
    begun(objects, 1, "bob")
    sender.start()
    try:
        eventually(lambda: len(receiver.taken) == len(wanted))
    finally:
        sender.stop()
        sender.join()
    webhooks = OpenAI(api_key="none").webhooks
    events = [webhooks.unwrap(body, headers, secret=signed_with) for headers, body in receiver.taken]
    assert {event.data.id: event.type for event in events} == wanted
    assert {type(event).__module__.startswith("openai.types.webhooks.") for event in events} == {True}


@pytest.mark.parametrize(("age", "state"), [(6, Callback.State.PENDING), (8, Callback.State.REFUSED)])
def test_a_batchs_webhook_is_given_up_after_a_week(home: Path, age: int, state: str) -> None:
    batch = begun(Folder(home / "lane"), 1)
    Batch.objects.filter(pk=batch.pk).update(ended_at=claims.now() - timedelta(days=age))
    Callback.objects.create(job=batch, due_at=claims.now())
    [callback] = callbacks.claim(callbacks.POLICY, 1, {})
    callbacks.settle(callback, Answer(503), callbacks.POLICY, 0.0)
    assert Callback.objects.get().state == state
