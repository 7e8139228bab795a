"""Runs badly behaved clients one after the other, beside good requests, and looks what the server keeps of them."""

import asyncio
import sys
from collections.abc import Sequence
from urllib.parse import urlunsplit

from inference.backends.metrics_page import MetricsPages
from inference.contract.server_metrics import read_load_or_gateway
from inference.loadtest.client import Client, TargetError
from inference.loadtest.core.result import Outcome
from inference.loadtest.core.samples import CUT_SHORT, Sample
from inference.loadtest.core.unhappy import Calm, Case, Report, calm_of, harm, leak
from inference.loadtest.core.workload import Planned
from inference.loadtest.pacer import now_s
from inference.loadtest.prompts import Prompts
from inference.loadtest.run import Load
from inference.loadtest.unhappy.cases import CASES, SHORT_TOKENS, Bench, CaseKind

BURST = 10
MIN_CALM = 10
_LOOKS = 20
_MAX_RUN_S = 3600.0


class Suite:
    """`rate` good requests a second, always; nothing is waited for longer than `patience_s`."""

    def __init__(self, client: Client, prompts: Prompts, planned: Planned, rate: float, patience_s: float) -> None:
        self._client, self._prompts, self._rate, self._patience_s = client, prompts, rate, patience_s
        self._good = planned._replace(output_tokens=min(planned.output_tokens, SHORT_TOKENS))
        self._load = Load(client, prompts)
        self._report: Report | None = None
        self._pages = MetricsPages(link_local=True)
        url = client.target.url
        host = f"[{url.host}]" if ":" in url.host else url.host
        self._page = urlunsplit((url.scheme, f"{host}:{url.port}", f"{url.path.removesuffix('/v1')}/metrics", "", ""))

    async def run(self, names: Sequence[str], stop: asyncio.Event) -> tuple[Outcome, Report]:
        """All cases, or those until `stop`. Raises TargetError where good requests alone fail already, or not even they were sent."""
        ended = asyncio.Event()
        plan = [self._good._replace(due_s=n / self._rate) for n in range(int(_MAX_RUN_S * self._rate))]
        beside = asyncio.create_task(self._load.run(plan, ended))
        watch = asyncio.create_task(stop.wait())
        work = asyncio.create_task(self._cases(names))
        try:
            await asyncio.wait((watch, work), return_when=asyncio.FIRST_COMPLETED)
            cut_short = not work.done()
            if not cut_short:
                work.result()
            elif self._report is None:
                raise TargetError("ended before the first client")
        finally:
            ended.set()
            work.cancel()
            watch.cancel()
            await asyncio.gather(work, watch, return_exceptions=True)
            outcome = await beside
            self._pages.close()
        outcome.samples = [sample for sample in outcome.samples if sample.failure != CUT_SHORT]
        outcome.planned, outcome.cut_short = len(outcome.samples), cut_short
        assert self._report is not None
        return outcome, self._report

    async def _cases(self, names: Sequence[str]) -> None:
        least = await self._least(MIN_CALM / self._rate, 0.0)
        while len(calm := [sample for sample in self._load.samples if sample.ended_s is not None]) < MIN_CALM:  # noqa: ASYNC110
            await asyncio.sleep(self._patience_s / _LOOKS)
        failed = next((sample for sample in calm if sample.failure), None)
        if failed is not None:
            raise TargetError(f"good requests alone fail already: {failed.failure}: {failed.said}")
        reference = calm_of(calm, least, self._patience_s)
        self._report = Report(reference, least is not None, [])
        for name in names:
            case, least = await self._case(name, CASES[name], reference, least)
            self._report.cases.append(case)
            sys.stderr.write(f"weir bench: {name}: {'; '.join(case.faults) or 'as expected'}\n")

    async def _case(self, name: str, kind: CaseKind, calm: Calm, before: float | None) -> tuple[Case, float | None]:
        begin_s = self._load.now_s
        try:
            got, faults = await kind.run(Bench(self._client, self._patience_s, self._burst))
        except (OSError, TimeoutError) as error:
            got, faults = "no connection", [f"no connection could be made: {error or 'timed out'}"]
        # So long that requests which were due after the client came can have waited too long.
        await asyncio.sleep(2 / self._rate + (0.0 if kind.may_delay else min(calm.limit_s, self._patience_s)))
        now = self._load.now_s
        beside = [sample for sample in self._load.samples if begin_s <= sample.due_s <= now]
        faults = [*faults, *([] if kind.may_delay else harm(calm, beside, now))]
        least = None if before is None else await self._least(self._patience_s, before)
        faults += leak(before, least, self._patience_s)
        return Case(name, kind.did, kind.expected, got, tuple(faults), len(beside)), before if least is None else least

    async def _least(self, seconds: float, enough: float) -> float | None:
        """The fewest requests beside the good ones that the server says it has, over some seconds or until they are few enough."""
        least, until_s = None, now_s() + seconds
        while now_s() < until_s and (least is None or least > enough):
            own = self._under_way()
            load = await self._pages.signals(self._page, self._patience_s, read_load_or_gateway)
            if not load.known:
                return None
            has = max(0.0, (load.running or 0.0) + (load.waiting or 0.0) - max(own, self._under_way()))
            least = has if least is None else min(least, has)
            await asyncio.sleep(self._patience_s / _LOOKS)
        return least

    def _under_way(self) -> int:
        """Good requests."""
        return sum(sample.ended_s is None for sample in self._load.samples)

    async def _burst(self) -> list[Sample]:
        client = Client(self._client.target, self._client.timeout_s)
        load = Load(client, self._prompts)
        count = max(BURST, int(BURST * self._rate * self._patience_s))
        plan = [self._good._replace(due_s=n / (BURST * self._rate)) for n in range(count)]
        try:
            return (await load.run(plan, asyncio.Event())).samples
        finally:
            client.close()
