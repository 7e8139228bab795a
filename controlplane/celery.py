"""The worker: `celery -A controlplane.celery worker -B`, any number of them. One of them, which holds a lease, sends the
scheduled tasks of `worker/schedule.py`."""

import os
import signal
from http.server import ThreadingHTTPServer
from typing import Any

import structlog
from celery import Celery, bootsteps
from celery.signals import setup_logging, worker_init
from django.conf import settings

from controlplane.config.connections import connections_of
from controlplane.observability import metrics_server, tasks, tracing
from controlplane.worker import metrics
from controlplane.worker.schedule import SCHEDULE
from inference.contract.tls.clear_text import warn

log = structlog.get_logger(__name__)
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "controlplane.settings")
config = settings.CONFIG

app = Celery("weir")
app.conf.update(
    broker_url=config.redis_url,
    broker_transport_options={"global_keyprefix": "weir:celery:", "socket_timeout": 10, "socket_connect_timeout": 5},
    # Without this, Celery's transport takes any certificate.
    broker_use_ssl={"ssl_cert_reqs": "required", "ssl_check_hostname": True}
    if config.redis_url.startswith("rediss:")
    else None,
    broker_connection_retry_on_startup=True,
    broker_connection_max_retries=None,  # without end: a restarted Redis is found again
    task_ignore_result=True,
    task_acks_late=True,
    worker_pool="threads",  # tasks wait for databases and sockets, so processes would only cost memory
    worker_concurrency=4,
    worker_prefetch_multiplier=1,
    worker_send_task_events=False,
    worker_cancel_long_running_tasks_on_connection_loss=False,  # threads cannot be cancelled
    worker_hijack_root_logger=False,
    timezone="UTC",
    worker_consumer="controlplane.worker.broker:Consumer",
    worker_enable_remote_control=False,
    beat_scheduler="controlplane.worker.beat:Beat",
    beat_schedule=SCHEDULE,
)
app.autodiscover_tasks(["controlplane.fleet", "controlplane.planning", "controlplane.policy", "controlplane.tenants"])
metrics.listen()


@worker_init.connect  # type: ignore[untyped-decorator]
def _trace(**_: Any) -> None:
    tracing.configure("weir-worker", config)
    warn(connections_of(config))
    tasks.listen()


@setup_logging.connect  # type: ignore[untyped-decorator]
def _keep_our_logging(**_: Any) -> None:
    """With a receiver of this signal Celery does not configure logging, so Django's configuration stays."""


AFTER_BEAT = {"celery.worker.components:Pool", "celery.worker.components:Beat"}
"""Steps that start threads require these. With `-B` the worker forks beat. A lock that a thread holds at that moment, such as
SQLite's for a write, is never released in the fork, and beat would send no task."""
LOOK_S = 1.0


class Beating(bootsteps.StartStopStep):  # type: ignore[misc]
    """Ends a worker whose beat was killed, so that it is started again: to fork another beside these threads would do as above."""

    requires = AFTER_BEAT

    def __init__(self, worker: Any, **kwargs: Any) -> None:
        from controlplane.core.periodic import PeriodicThread

        super().__init__(worker, **kwargs)
        self.thread = PeriodicThread("beat", lambda: self._look(worker.beat), LOOK_S)

    def start(self, worker: Any) -> None:
        if worker.beat is not None:
            self.thread.start()

    def stop(self, worker: Any) -> None:
        self.thread.stop()

    def _look(self, beat: Any) -> None:
        if not beat.is_alive():
            log.error("beat.ended", exit_code=beat.exitcode, meanwhile="the worker ends too, to be started again")
            self.thread.stop()
            os.kill(os.getpid(), signal.SIGTERM)


class Observing(bootsteps.StartStopStep):  # type: ignore[misc]
    """Runs the observer for as long as the worker runs (controlplane/fleet/observe/loop.py)."""

    requires = AFTER_BEAT

    def __init__(self, worker: Any, **kwargs: Any) -> None:
        from controlplane.fleet.observe.loop import observer

        super().__init__(worker, **kwargs)
        self.observer = observer()

    def start(self, worker: Any) -> None:
        self.observer.start()

    def stop(self, worker: Any) -> None:
        self.observer.stop()


class Paging(bootsteps.StartStopStep):  # type: ignore[misc]
    """Sends pages and heartbeats, and watches components, for as long as the worker runs.

    None of the three is a task: see controlplane/incidents/notify/delivery/send/sender.py.
    """

    requires = AFTER_BEAT

    def __init__(self, worker: Any, **kwargs: Any) -> None:
        from controlplane.incidents.decide.watch import component_watch
        from controlplane.incidents.notify.delivery.health.heartbeat import HeartbeatThread
        from controlplane.incidents.notify.delivery.send.sender import Sender
        from controlplane.incidents.report.unnotified import sentences

        super().__init__(worker, **kwargs)
        self.sender, self.components = Sender(), component_watch()
        self.heartbeat = HeartbeatThread(sentences)

    def start(self, worker: Any) -> None:
        self.sender.start()
        self.heartbeat.start()
        self.components.start()

    def stop(self, worker: Any) -> None:
        self.components.stop()
        self.heartbeat.stop()
        self.sender.stop()
        self.sender.join()  # deliveries in flight are answered first


class Exposing(bootsteps.StartStopStep):  # type: ignore[misc]
    """Answers `/metrics` at WEIR_WORKER_METRICS, for as long as the worker runs."""

    requires = AFTER_BEAT

    def __init__(self, worker: Any, **kwargs: Any) -> None:
        super().__init__(worker, **kwargs)
        self.server: ThreadingHTTPServer | None = None

    def include_if(self, worker: Any) -> bool:
        return bool(config.worker_metrics)

    def start(self, worker: Any) -> None:
        host, _, port = config.worker_metrics.rpartition(":")
        self.server = metrics_server.serve_by(config, "WEIR_WORKER_METRICS", host.strip("[]"), int(port))

    def stop(self, worker: Any) -> None:
        if self.server is not None:
            self.server.shutdown()
            self.server.server_close()


app.steps["worker"].add(Beating)
app.steps["worker"].add(Exposing)
app.steps["worker"].add(Observing)
app.steps["worker"].add(Paging)
