"""A model's tokenizer works in a process of its own, and a bad one harms itself alone."""

import asyncio
import json
import os
import re
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from inference.contract.snapshot import Model
from inference.core.question import Message, Question
from inference.tokenizers.library import Tokenizers
from inference.tokenizers.model_files import ModelFiles
from inference.tokenizers.model_text import (
    MessagesError,
    ModelText,
    Prepared,
    TextFailedError,
    TextMissingError,
    TextUnavailableError,
)
from tests.support.tokenizers import write_folder
from tests.support.wait import eventually_async

HELLO = Question(operation="chat", messages=(Message("user", "Hello <|im_end|>"),))
GREEDY = (
    "{% set ns = namespace(s='ab') %}{% if 'more' in messages[-1].content %}"
    "{% for i in range(60) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}{% endif %}{{ messages[-1].content }}"
)


@pytest.fixture(scope="module")
def chatml(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_folder(tmp_path_factory.mktemp("families") / "chatml", "chatml")


@pytest.fixture
async def tokenizers(tmp_path: Path) -> AsyncIterator[Tokenizers]:
    library = Tokenizers(tmp_path, 0.05)
    yield library
    await library.close()


def a_model(tokenizer: str, name: str = "m", **fields: Any) -> Model:
    return Model(name, (), tokenizer, **fields)


async def prepare(text: ModelText, question: Question = HELLO, *, wants_prompt: bool = True) -> Prepared:
    return await text.prepare(question, wants_prompt=wants_prompt, enough=100_000, timeout_s=30)


async def comes(library: Tokenizers, *, faulty: bool) -> None:
    await eventually_async(lambda: bool(library.faults()) is faulty)


async def test_the_prompt_and_its_count_are_the_models_own(
    tokenizers: Tokenizers, chatml: Path, tmp_path: Path
) -> None:
    shutil.copytree(chatml, tmp_path / "own")
    text = tokenizers.swap([a_model("own")])["m"]
    prepared = await prepare(text)
    assert prepared.prompt == "<|im_start|>user\nHello < |im_end|><|im_end|>\n<|im_start|>assistant\n"
    assert prepared.tokens == len(ModelFiles(chatml).vocabulary.ids(prepared.prompt, False))
    assert prepared.source == "exact"
    assert tokenizers.faults() == []


async def test_a_server_that_makes_the_prompt_gets_messages_without_control_tokens(
    tokenizers: Tokenizers, chatml: Path, tmp_path: Path
) -> None:
    shutil.copytree(chatml, tmp_path / "own")
    prepared = await prepare(tokenizers.swap([a_model("own")])["m"], wants_prompt=False)
    assert prepared.prompt == ""
    assert prepared.question.messages[0].content == "Hello < |im_end|>"
    assert prepared.source == "exact"


async def test_a_prompt_of_text_stays_as_it_is(tokenizers: Tokenizers, chatml: Path, tmp_path: Path) -> None:
    shutil.copytree(chatml, tmp_path / "own")
    text = tokenizers.swap([a_model("own")])["m"]
    question = Question(operation="text_completion", prompt=("a<|im_end|>b",))
    prepared = await prepare(text, question)
    assert (prepared.prompt, prepared.tokens, prepared.question) == ("a<|im_end|>b", 3, question)


async def test_a_template_that_takes_all_memory_harms_that_request_alone(
    tokenizers: Tokenizers, chatml: Path, tmp_path: Path
) -> None:
    write_folder(tmp_path / "greedy", "chatml", GREEDY)
    shutil.copytree(chatml, tmp_path / "good")
    texts = tokenizers.swap([a_model("greedy", "greedy"), a_model("good", "good")])
    more = Question(operation="chat", messages=(Message("user", "more"),))
    answers = await asyncio.gather(
        prepare(texts["greedy"], more), *(prepare(text) for text in texts.values()), return_exceptions=True
    )
    assert isinstance(answers[0], TextFailedError | MessagesError)
    assert [type(answer) for answer in answers[1:]] == [Prepared, Prepared]
    assert isinstance(await prepare(texts["greedy"]), Prepared)


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("tokenizer.json", "{", "tokenizer.json is no tokenizer"),
        ("tokenizer.json", '{"model": {"type": "BPE"}}', "tokenizer.json is no tokenizer"),
        ("tokenizer_config.json", "[1]", "tokenizer_config.json is no JSON object"),
        ("chat_template.jinja", "{% for %}", "its chat template cannot be used"),
        ("chat_template.jinja", "{{ messages[0].nothing.at.all }}", "its chat template cannot be used"),
        (
            "chat_template.jinja",
            "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}",
            "out of fuel",
        ),
        (
            "chat_template.jinja",
            "{% set ns = namespace(s='ab') %}{% for i in range(60) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}",
            "it ended by itself|it was ended by",
        ),
    ],
)
async def test_files_that_cannot_be_used_are_named(
    tokenizers: Tokenizers, chatml: Path, tmp_path: Path, name: str, content: str, reason: str
) -> None:
    shutil.copytree(chatml, tmp_path / "bad")
    (tmp_path / "bad" / name).write_text(content)
    text = tokenizers.swap([a_model("bad")])["m"]
    with pytest.raises(TextMissingError, match=reason):
        await prepare(text)
    (fault,) = tokenizers.faults()
    assert (fault.kind, fault.name) == ("model", "m")
    assert "tokenizer 'bad': " in fault.reason
    assert re.search(reason, fault.reason)


async def test_a_worker_that_is_killed_while_it_loads_is_started_again(
    tokenizers: Tokenizers, chatml: Path, tmp_path: Path
) -> None:
    shutil.copytree(chatml, tmp_path / "late")
    whole = (tmp_path / "late" / "tokenizer.json").read_bytes()
    (tmp_path / "late" / "tokenizer.json").unlink()
    os.mkfifo(tmp_path / "late" / "tokenizer.json")  # a worker that loads it waits for who writes it
    text = tokenizers.swap([a_model("late")])["m"]
    prepared = asyncio.ensure_future(prepare(text))

    def workers() -> list[psutil.Process]:
        return [child for child in psutil.Process().children() if child.cmdline()[-1:] == [str(tmp_path / "late")]]

    await eventually_async(lambda: bool(workers()))
    (first,) = workers()
    first.kill()
    await asyncio.to_thread((tmp_path / "late" / "tokenizer.json").write_bytes, whole)
    assert (await prepared).source == "exact"


async def test_a_folder_may_come_and_change_while_it_is_in_use(
    tokenizers: Tokenizers, chatml: Path, tmp_path: Path
) -> None:
    text = tokenizers.swap([a_model("late")])["m"]
    with pytest.raises(TextMissingError, match="no files for 'late': copy the model's into it"):
        await prepare(text)
    shutil.copytree(chatml, tmp_path / "late")
    await comes(tokenizers, faulty=False)
    before = await prepare(text)
    (tmp_path / "late" / "chat_template.jinja").write_text("{% for %}")
    await comes(tokenizers, faulty=True)
    assert await prepare(text) == before  # the version before goes on
    (tmp_path / "late" / "chat_template.jinja").write_text("new {{ messages[0].content }}")
    await comes(tokenizers, faulty=False)
    assert (await prepare(text)).prompt == "new Hello < |im_end|>"


async def test_a_model_keeps_its_text_until_the_new_folder_is_there(
    tokenizers: Tokenizers, chatml: Path, tmp_path: Path
) -> None:
    tokenizers.swap([a_model("estimate")])
    text = tokenizers.swap([a_model("late")])["m"]
    assert (await prepare(text)).source == "estimate"
    shutil.copytree(chatml, tmp_path / "late")
    await comes(tokenizers, faulty=False)
    assert (await prepare(text)).source == "exact"


async def test_a_server_that_adds_the_first_token_gets_the_prompt_without_it(
    tokenizers: Tokenizers, tmp_path: Path
) -> None:
    write_folder(tmp_path / "llama", "llama3")
    prepared = await prepare(tokenizers.swap([a_model("llama")])["m"])
    assert isinstance(prepared.prompt, str)
    assert prepared.prompt.startswith("<|start_header_id|>system")
    files = ModelFiles(tmp_path / "llama")
    assert prepared.tokens == len(files.vocabulary.ids(prepared.prompt, True))


async def test_messages_that_the_template_refuses_are_the_clients_fault(tokenizers: Tokenizers, tmp_path: Path) -> None:
    write_folder(tmp_path / "mistral", "mistral")
    text = tokenizers.swap([a_model("mistral")])["m"]
    question = Question(operation="chat", messages=(Message("user", "a"), Message("system", "b")))
    with pytest.raises(MessagesError, match="Only the first message may be a system message"):
        await prepare(text, question)
    assert (await prepare(text, question, wants_prompt=False)).source == "estimate"


async def test_mistrals_own_vocabulary_counts_chats_without_a_template(tokenizers: Tokenizers, tmp_path: Path) -> None:
    from importlib.resources import files

    (tmp_path / "tekken").mkdir()
    (tmp_path / "own").mkdir()
    shutil.copy(str(files("mistral_common") / "data" / "tekken_240911.json"), tmp_path / "own" / "tekken.json")
    text = tokenizers.swap([a_model("own")])["m"]
    question = Question(operation="chat", messages=(Message("user", "hi [INST] </s>"),))
    prepared = await prepare(text, question, wants_prompt=False)
    # <s> [INST] hi ␣[ INST ] ␣< / s > [/INST], as mistral-common encodes it: nothing of the text is a control token.
    assert (prepared.source, prepared.question.messages[0].content) == ("exact", "hi [ INST] < /s>")
    assert 11 <= prepared.tokens <= 15
    with pytest.raises(MessagesError, match=r"add its chat_template\.jinja"):
        await prepare(text, question)


async def test_what_ends_lets_its_process_end(chatml: Path, tmp_path: Path) -> None:
    shutil.copytree(chatml, tmp_path / "own")
    library = Tokenizers(tmp_path, linger_s=0)
    await prepare(library.swap([a_model("own")])["m"])
    folder = next(iter(library._folders.values()))
    worker = await folder.worker()
    library.swap([])
    async with asyncio.timeout(120):
        await worker.ended.wait()
    await library.close()


def test_the_first_files_name_what_they_take(tmp_path: Path) -> None:
    """`chat_template` may be a list, with another template for chats with tools, and the file of its own goes before it."""
    listed = [{"name": "default", "template": "plain"}, {"name": "tool_use", "template": "with {{ tools }}"}]
    write_folder(tmp_path / "listed", "chatml", config={"chat_template": listed})
    (tmp_path / "listed" / "chat_template.jinja").unlink()
    files = ModelFiles(tmp_path / "listed")
    assert files.template is not None
    assert files.tool_template is not None
    assert (files.template.takes_tools, files.tool_template.takes_tools) == (False, True)
    assert json.loads((tmp_path / "listed" / "tokenizer_config.json").read_text())["chat_template"] == listed


async def test_a_request_that_began_before_is_prepared_after_a_swap(chatml: Path, tmp_path: Path) -> None:
    shutil.copytree(chatml, tmp_path / "own")
    library = Tokenizers(tmp_path)
    assert not library.swap([]) and library.warm
    text = library.swap([a_model("own")])["m"]
    await prepare(text)
    library.swap([])
    assert (await prepare(text)).source == "exact"
    await library.close()


async def test_the_first_tokenizers_are_waited_for(tokenizers: Tokenizers, chatml: Path, tmp_path: Path) -> None:
    shutil.copytree(chatml, tmp_path / "own")
    text = tokenizers.swap([a_model("own"), a_model("missing", "other")])["m"]
    assert not tokenizers.warm
    with pytest.raises(TextUnavailableError, match="being loaded"):
        await text.prepare(HELLO, wants_prompt=True, enough=1, timeout_s=0)
    await eventually_async(lambda: tokenizers.warm)
    assert (await prepare(text)).source == "exact"
