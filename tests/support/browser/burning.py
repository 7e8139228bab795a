"""Code for `Site.shell`: objectives that were just judged, incidents of every kind, their pages as accepted, and the end of all of them."""

BURN = """
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from controlplane.fleet.models import SnapshotRevision
from controlplane.incidents.act import silencing
from controlplane.incidents.notify import changes
from controlplane.incidents.decide import engine
from controlplane.incidents.models import ChangeRecord, Incident
from controlplane.slo.core.objective import Objective
from controlplane.slo.core.sli import Availability, Latency
from tests.support.incidents.alerts import TTFT, alert
from tests.support.incidents.notices import pagerduty
from controlplane.incidents.notify.delivery.models import Destination
Destination.objects.exists() or pagerduty("on call")
now = datetime.now(UTC).replace(microsecond=0)
ChangeRecord.objects.all().delete()  # those of other tests, which edit the fleet
SnapshotRevision.objects.update(created_at=now - timedelta(days=1))
changes.record("policy-revision/14", "policy revision 14", "policy", now - timedelta(minutes=5))
large = replace(TTFT, indicator=Latency("ttft", 1500), scope={"model": "chat-large"})
quick = replace(TTFT, slug="chat-e2e", name="Chat is done soon", indicator=Latency("e2e", 4000))
up = Objective(slug="small-up", name="Small chat answers", indicator=Availability(), target=0.999, owner="search")
up = replace(up, scope={"model": "chat-small"})
ends = now + timedelta(hours=2)
silencing.add(["objective=chat-*e2e"], now - timedelta(minutes=1), ends, "tom", "load test of the new pool")
alerts = [alert(large, at=now), alert(quick, at=now), alert(up, severity="ticket", burn=4.2, at=now)]
for tick in range(30):  # what a busy machine's store did not answer in time is filled in later
    engine.observe(alerts, now + timedelta(seconds=tick))
    if not Incident.objects.filter(attribution__isnull=True).exists():
        break
"""
SENT = """
from django.utils import timezone
from controlplane.incidents.notify.delivery.models import Delivery, Heartbeat
now = timezone.now()
Heartbeat.objects.update_or_create(name=Heartbeat.SENDER, defaults={"at": now})
Delivery.objects.update(state="delivered", settled_at=now)
"""
QUIET = """
from controlplane.incidents.models import Incident, SilenceRecord
from controlplane.incidents.notify.delivery.models import Delivery, Destination
Incident.objects.all().delete()
Delivery.objects.all().delete()
Destination.objects.all().delete()
SilenceRecord.objects.all().delete()
"""
JUDGE = """
import time
from datetime import UTC, datetime, timedelta
from django.conf import settings
from controlplane.controller.loop import Controller
from controlplane.slo.models import Maintenance
from controlplane.slo.core.objective import Objective
from controlplane.slo.save import save_objective
from controlplane.slo.core.sli import Availability, Latency
from controlplane.telemetry.store import Store

save_objective(Objective("chat-large-fast", "Large chat answers within 700 ms", Latency("e2e", 700.0), 0.97, {"model": "chat-large"},
    owner="serving", runbook="https://runbooks.example/chat-large", description="What people at their screens feel."), who="olga")
save_objective(Objective("chat-large-fast", "Large chat answers within 600 ms", Latency("e2e", 600.0), 0.97, {"model": "chat-large"},
    owner="serving", runbook="https://runbooks.example/chat-large", description="What people at their screens feel."), who="olga")
save_objective(Objective("answers-by-tier", "Every tier is answered", Availability(), 0.9, split_by=("tier",), owner="serving"), who="olga")
begin = datetime.now(UTC) - timedelta(days=3)
Maintenance.objects.get_or_create(name="Driver update", defaults={"start": begin.strftime("%Y-%m-%dT%H:00:00"), "duration_s": 14400,
    "reason": "new drivers", "author": "olga"})
controller = Controller(Store(settings.CONFIG.store_dsn), settings.CONFIG, lambda *_: None)
controller.step(datetime.now(UTC))
while controller.evaluator.sweep(time.time_ns()): pass
for hour in range(3): controller.evaluator.sweep(time.time_ns() + hour * 3_600 * 10**9)
controller.step(datetime.now(UTC))
"""
