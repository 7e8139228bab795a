"""What people do in the admin that turns out to do harm, with what it takes: a candidate that fails, a pool to fail over to."""

from collections.abc import Iterator
from contextlib import contextmanager

from playwright.sync_api import Page, expect

from tests.support.deploy.outage import in_shell
from tests.support.deploy.run import Run
from tests.support.http_server import on_a_thread
from tests.support.servers.standins import ModelServer, VLlm

CANARY = """\
apiVersion: weir/v1
kind: Canary
metadata: {name: small-next}
spec:
  model: chat-small
  baseline: chat-small-local
  candidate: chat-small-next
  steps: [50]
"""
FAILOVER = """\
apiVersion: weir/v1
kind: Routing
metadata: {name: small-routes}
spec:
  model: chat-small
  failover:
    - {name: small-down, pools: [chat-small-local], to: {chat-small-spare: 100}, min_stay_s: 5}
"""
_POOL = """
from controlplane.fleet.models import Pool, Replica
small = Pool.objects.get(name="chat-small-local")
pool = Pool.objects.get(name="chat-large-local")
servers = {servers}
pool.pk, pool.name, pool.variant, pool.weight = None, "{name}", small.variant, 0
for field, value in {fields}.items():
    setattr(pool, field, value)
pool.save(force_insert=True)
for number, server in enumerate(servers):
    Replica.objects.create(pool=pool, name=f"{name}-{{number}}", **server)
"""
_DISABLED = """
from controlplane.fleet.models import Pool
from tests.support.http_server import on_a_thread
pool = Pool.objects.get(name="{name}")
pool.enabled = False
pool.save()
"""


def edit_pool(page: Page, name: str, **fields: int) -> None:
    page.goto(f"/admin/fleet/pool/?q={name}")
    page.get_by_role("link", name=name, exact=True).first.click()
    for field, value in fields.items():
        page.locator(f"#id_{field}").fill(str(value))
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.get_by_text("was changed successfully").first).to_be_visible()


@contextmanager
def in_force(page: Page, kind: str, text: str) -> Iterator[None]:
    """A policy that is activated, and retired at the end of the block."""
    page.goto(f"/admin/policy/policyrevision/add/?kind={kind}")
    page.locator("#id_text").fill(text)
    page.get_by_role("button", name="Save", exact=True).click()
    _step(page, "Activate", "is in force within a second.")
    shown = page.url
    try:
        yield
    finally:
        page.goto(shown)
        _step(page, "Retire", "It is retired.")


def _step(page: Page, name: str, done: str) -> None:
    page.get_by_role("button", name=name, exact=True).click()
    page.get_by_role("button", name="Do it").click()
    expect(page.get_by_text(done).first).to_be_visible()


@contextmanager
def failing_candidate(run: Run) -> Iterator[ModelServer]:
    """`chat-small-next`, a pool whose server is ready and answers each inference with an error."""
    with on_a_thread(VLlm()) as server:
        server.fault = "500"
        fields = {"protocol": "openai", "server": "vllm", "model_name": server.model, "cluster": None}
        with _pool(run, "chat-small-next", fields, repr([{"url": server.url}])):
            yield server


@contextmanager
def spare_pool(run: Run) -> Iterator[None]:
    """`chat-small-spare`, a pool on the servers of the larger model, which gets requests only where somebody sends them there."""
    servers = '[{"grpc": each.grpc, "http": each.http, "metrics": each.metrics} for each in pool.replicas.all()]'
    with _pool(run, "chat-small-spare", {}, servers):
        yield


@contextmanager
def _pool(run: Run, name: str, fields: dict[str, object], servers: str) -> Iterator[None]:
    in_shell(run, _POOL.format(name=name, fields=fields, servers=servers))
    try:
        yield
    finally:
        in_shell(run, _DISABLED.format(name=name))
