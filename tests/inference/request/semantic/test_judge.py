"""A model of the fleet that has to agree to texts in other words, on a real Redis."""

import asyncio
import json
from pathlib import Path

import msgspec
import pytest

from inference.backends.port import CallInfo
from inference.core.backend_errors import FailedError
from inference.core.question import Question
from inference.core.semantic.evidence import Label
from tests.support.gateway.scripted import ScriptedStream
from tests.support.gateway.similar import NAMES, OTHER_KEY, RULE, Bed, Chat, bed, snapshot

JUDGED = msgspec.structs.replace(RULE, judge="j", judge_ms=60_000)
SAME, DIFFERENT = '{"verdict": "same"}', '{"verdict": "different"}'


class JudgeModel(Chat):
    """Says `verdict` of each pair, once it may."""

    def __init__(self, verdict: str = SAME) -> None:
        super().__init__(lambda _: self.verdict)
        self.verdict = verdict
        self.error: Exception | None = None
        self.may = asyncio.Event()
        self.may.set()

    async def generate(self, question: Question, call: CallInfo) -> ScriptedStream:
        await self.may.wait()
        if self.error is not None:
            raise self.error
        return await super().generate(question, call)


async def certified(it: Bed, words: str = "other") -> None:
    """Evidence that lets answers in other words be served."""
    route = next(each for each in it.semantic.labels.routes.values() if each.words == words)
    for number in range(2 * route.evidence.labels_wanted):
        it.semantic.labels.add(route.name, Label(0.99, wrong=False), f"{number}")
    await it.learnt()
    assert route.evidence.threshold is not None


def text(number: int, more: str = "nowadays") -> str:
    return f"what is the capital of {NAMES[number].title()} {more}"


@pytest.fixture(autouse=True)
def _every_hit_is_served(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("inference.request.semantic.lookup.random.random", lambda: 0.99)


async def test_only_where_it_agrees_is_a_text_in_other_words_compared_and_served(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, redis_url: str
) -> None:
    judge = JudgeModel(DIFFERENT)
    async with bed(tmp_path, monkeypatch, redis_url, snapshot(JUDGED), judge=judge) as it:
        await it.ask(text(0, ""))
        assert (await it.ask(text(0)))[0] == "miss"
        assert it.semantic.counts["m", "refused_judge"] == 1
        assert it.semantic.counts["m", "label_right"] == it.semantic.counts["m", "label_wrong"] == 0
        judge.verdict = SAME
        assert (await it.ask(text(0, "formally")))[0] == "miss"
        assert it.semantic.counts["m", "label_right"] == 1
        await certified(it)
        outcome, answer = await it.ask(text(0, "exactly"))
        assert (outcome.partition(";")[0], answer) == (
            "miss",
            f"{NAMES[0].upper()}-CITY",
        )  # a comparative: not its to judge
        outcome, answer = await it.ask(text(0, "officially"))
        assert (outcome.partition(";")[0], answer) == ("semantic", f"{NAMES[0].upper()}-CITY")
        judge.verdict = "same"
        assert (await it.ask(text(0, "usually")))[0] == "miss"
    asked = judge.questions[-1].messages[-1].content
    assert isinstance(asked, str)
    assert json.loads(asked)["second"] == text(0, "usually")
    assert OTHER_KEY not in asked


async def test_without_it_other_words_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, redis_url: str
) -> None:
    judge, rule = JudgeModel(), msgspec.structs.replace(JUDGED, judge="lost", other_words=True)
    async with bed(tmp_path, monkeypatch, redis_url, snapshot(rule), judge=judge) as it:
        await it.ask(text(0, ""))
        assert (await it.ask(text(0)))[0] == "miss"
        assert it.semantic.counts["m", "refused_word"] == 1
    assert judge.questions == []


async def test_a_judge_that_fails_is_late_or_does_not_know_the_text_makes_a_miss(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, redis_url: str
) -> None:
    judge, rule = JudgeModel(), msgspec.structs.replace(JUDGED, judge_ms=1)
    async with bed(tmp_path, monkeypatch, redis_url, snapshot(rule), judge=judge) as it:
        await it.ask(text(0, ""))
        await it.ask(text(0))
        await certified(it)
        judge.may.clear()
        assert (await it.ask(text(0, "officially")))[0] == "miss"
        judge.may.set()
        judge.error = FailedError("it broke", "internal")
        assert (await it.ask(text(0, "usually")))[0] == "miss"
        assert it.semantic.counts["m", "refused_judge_failed"] == 2
        it.semantic.judge._texts.clear()
        judge.error = None
        assert (await it.ask(text(0, "formally")))[0] == "miss"
        assert it.semantic.counts["m", "refused_judge_no_text"] == 1


async def test_its_errors_on_the_marks_of_people_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, redis_url: str
) -> None:
    async with bed(tmp_path, monkeypatch, redis_url, snapshot(JUDGED), judge=JudgeModel()) as it:
        await it.ask(text(0, ""))
        await it.ask(text(0))
        await certified(it)
        messages = [{"role": "user", "content": text(0, "officially")}]
        raw = await it.client.chat.completions.with_raw_response.create(model="m", temperature=0, messages=messages)  # type: ignore[arg-type]
        assert raw.headers["x-weir-cache"].startswith("semantic")
        assert await it.mark({"request_id": raw.headers["x-request-id"]}) == 200
        await it.learnt()
        route = next(each for each in it.semantic.labels.routes.values() if each.words == "other")
        assert (route.judge, route.evidence.wrong[0], route.marks) == ("j", 1, 1)
