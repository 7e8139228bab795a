"""How soon Weir is what custom resources on a real API server say: `make bench ONLY=cluster.resources`.

Weir looks once a second, as its controller does. Each time is until the object says that it is in force, and the database has it.
"""

import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.bench.cluster.rehearse import in_django
from tests.bench.figures import Figure

TIMES = 5


def run() -> Iterator[Figure]:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="weir-bench-")))
        in_django(folder)
        from controlplane.core.documents.reading import read
        from controlplane.fleet.files.export import export
        from controlplane.fleet.models import Pool
        from controlplane.sources.follow import EVERY_S
        from tests.support.cluster.binaries import binaries
        from tests.support.cluster.control_plane import control_plane
        from tests.support.cluster.namespace import namespace
        from tests.support.cluster.resources import Resources, defined, following
        from tests.support.entered_fleet import emptied, entered_fleet

        plane = stack.enter_context(contextmanager(control_plane)(folder, binaries(), nodes=1))
        there = Resources(stack.enter_context(contextmanager(namespace)(plane.kubeconfig, plane)))
        defined(there.namespace)
        entered_fleet()
        texts = export()
        emptied()
        follower = stack.enter_context(following(there.namespace))

        def until(holds: Callable[[], bool]) -> float:
            """How long it takes, s."""
            began = time.monotonic()
            while not holds():
                time.sleep(max(0.0, EVERY_S - time.monotonic() % EVERY_S))
                follower.step(lambda: None)
            return time.monotonic() - began

        objects = []
        for text in texts.values():
            [document], _ = read(text)
            here = document.name.replace("/", "-")
            other = {"name": document.name} if here != document.name else {}
            there.create(text.replace(document.name, here, 1), **other)
            objects.append((document.kind, here))
        took_s = until(lambda: all(there.ready(*each)[0] == "True" for each in objects) and export() == texts)
        yield Figure("resources.applied_s", took_s, "s", f"{len(objects)} objects at once")

        def weighs(weight: int) -> bool:
            return Pool.objects.get(name="chat-eu").weight == weight

        edits = []
        for weight in range(1, TIMES + 1):
            there.edit("Pool", "chat-eu", {"weight": weight})
            edits.append(until(lambda weight=weight: there.ready("Pool", "chat-eu")[0] == "True" and weighs(weight)))
        yield Figure("resources.edited_s", max(edits), "s", f"the worst of {TIMES} edits of an object")
        drifts = []
        for _ in range(TIMES):
            row = Pool.objects.get(name="chat-eu")
            row.weight = 99
            row.save()
            drifts.append(until(lambda: weighs(TIMES)))
        yield Figure("resources.put_back_s", max(drifts), "s", f"the worst of {TIMES} changes that were made in Weir")
        for each in objects:
            there.delete(*each)
        took_s = until(lambda: not any(there.get(*each) for each in objects) and export() == {})
        yield Figure("resources.deleted_s", took_s, "s", f"{len(objects)} objects at once")
