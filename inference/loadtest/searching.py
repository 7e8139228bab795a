"""Runs the steps of a search for the highest rate that keeps the objectives."""

import asyncio
import sys
from collections.abc import Callable, Sequence

from inference.loadtest.client import Client, TargetError
from inference.loadtest.core import search
from inference.loadtest.core.objective import Objective
from inference.loadtest.core.result import Outcome
from inference.loadtest.core.samples import CUT_SHORT, Sample
from inference.loadtest.core.search import Highest, Step
from inference.loadtest.core.workload import Planned
from inference.loadtest.pacer import now_s
from inference.loadtest.run import Load

LOOK_S = 0.25
RECOVER_S, CALM_TOKENS = 60.0, 16
MAX_REQUESTS_OF_STEP = 200_000
TRIES = 3
"""Of a step whose client lagged."""


class Search:
    """`plan_of` makes a plan of a rate for so many seconds with a seed."""

    def __init__(
        self,
        client: Client,
        load: Load,
        objectives: Sequence[Objective],
        plan_of: Callable[[float, float, int], list[Planned]],
    ) -> None:
        self._client, self._load, self._objectives, self._plan_of = client, load, objectives, plan_of
        self._warm_in_s = max(1.0, *(objective.threshold_s for objective in objectives))
        self._seed, self._ends_s = 0, 0.0

    async def run(self, first_rps: float, within_s: float, stop: asyncio.Event) -> tuple[Outcome, Highest]:
        """The search, and the load of the highest rate's last step. Raises TargetError."""
        steps, loads, self._ends_s = list[Step](), dict[float, Outcome](), now_s() + within_s
        rate: float | None = first_rps
        outcome: Outcome | None = None
        while rate is not None and not self._over(stop):
            step, outcome = await self._valid_step(rate, search.is_quick(steps, rate), stop)
            if step is None:
                break
            if not step.judged and not self._over(stop):
                raise TargetError(
                    "no answer has what the objectives are about: the server may not stream, or not count tokens"
                )
            steps.append(step)
            loads[rate] = outcome
            verdict = f"{'kept' if step.kept else 'lost'}: {step.bad} of {step.judged} bad in {step.took_s:.0f} s"
            sys.stderr.write(f"weir bench: {rate:.4g} requests/s {verdict}\n")
            rate = search.next_rate(steps, first_rps)
        if outcome is None:
            raise TargetError("ended before the first step")
        result = search.highest(steps, complete=rate is None)
        shown = loads.get(result.requests_per_s or 0.0, outcome)
        if step is None and outcome.client_faults and not self._over(stop):
            shown = outcome  # its faults say why the search could not go on
        shown.cut_short = stop.is_set()
        return shown, result

    async def _valid_step(self, rate: float, quick: bool, stop: asyncio.Event) -> tuple[Step | None, Outcome]:
        """No step where the client lagged again and again: then it is not known whose fault a loss is."""
        for _ in range(TRIES):
            step, outcome = await self._step(rate, quick, stop)
            if self._over(stop):
                return None, outcome
            await self._recover()
            if not outcome.client_faults:
                return step, outcome
            sys.stderr.write(f"weir bench: {rate:.4g} requests/s: the client lagged. {outcome.client_faults[0]}\n")
        return None, outcome

    async def _step(self, rate: float, quick: bool, stop: asyncio.Event) -> tuple[Step, Outcome]:
        self._seed += 1
        seconds = min(search.MAX_STEP_S, MAX_REQUESTS_OF_STEP / rate)
        plan = self._plan_of(rate, self._warm_in_s + seconds, self._seed)
        ended = asyncio.Event()
        running = asyncio.create_task(self._load.run(plan, ended))
        watching = asyncio.create_task(stop.wait())
        least_s = self._warm_in_s + search.least_s(self._objectives)
        try:
            while True:
                await asyncio.wait({running, watching}, timeout=LOOK_S, return_when=asyncio.FIRST_COMPLETED)
                now = self._load.now_s
                at_end = running.done() or self._over(stop)
                samples = [sample for sample in self._load.samples if sample.due_s >= self._warm_in_s]
                decision, judged, bad = search.judge(samples, self._objectives, now, quick=quick, at_end=at_end)
                if at_end or decision == "lost" or (decision == "kept" and (quick or now >= least_s)):
                    break
        finally:
            ended.set()
            watching.cancel()
            outcome = await running
        outcome.cut_short = False
        outcome.samples = [sample for sample in outcome.samples if sample.failure != CUT_SHORT]
        outcome.planned = len(outcome.samples)
        return Step(rate, judged, bad, decision == "kept", quick, round(now, 1)), outcome

    def _over(self, stop: asyncio.Event) -> bool:
        return stop.is_set() or now_s() >= self._ends_s

    async def _recover(self) -> None:
        """Until a request alone is good again: what a step left behind is not the next one's. Raises TargetError."""
        until_s = now_s() + RECOVER_S
        while now_s() < until_s:
            sample, began_s = Sample(-1, 0.0), now_s()
            body = self._client.target.body([{"role": "user", "content": "Count the stones."}], CALM_TOKENS)
            await self._client.send(sample, body, began_s)
            if all(objective.good(sample) is not False for objective in self._objectives):
                return
            await asyncio.sleep(LOOK_S)
        raise TargetError(
            f"{RECOVER_S:g} s after a step a request alone did not keep the objectives: {sample.failure or 'it is slow'}"
        )
