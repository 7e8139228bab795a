"""Counts a question with a model's own files, makes the text of its prompt or its token ids, and the text of an answer's ids."""

from collections.abc import Sequence

from inference.core.question import Prompt, Question
from inference.core.templates import conversation
from inference.core.templates.chat_template import ChatTemplate
from inference.core.templates.errors import ChatTemplateError, ForgedTokenError
from inference.core.text import parts_of
from inference.tokenizers.frames import Count, Decode, Job, Result
from inference.tokenizers.model_files import ModelFiles


def do(files: ModelFiles, job: Job) -> Result:
    return decode(files, job) if isinstance(job, Decode) else count(files, job)


def decode(files: ModelFiles, job: Decode) -> Result:
    """The text of the ids from `start` on; without a whole character at its end it is empty, and to be asked for again with more ids."""
    skip = job.skip_special_tokens
    before, text = files.vocabulary.text(job.ids[: job.start], skip), files.vocabulary.text(job.ids, skip)
    whole = not text.endswith("\ufffd")
    return Result(prompt=text[len(before) :] if whole else "", exact=whole)


def count(files: ModelFiles, job: Count) -> Result:
    """The tokens of `job`; with an error, for the client, where the messages cannot be laid out."""
    question = job.question
    if question.operation != "chat":
        prompts = question.prompt or question.input
        read = [_ids(files, prompt, job.enough) for prompt in prompts]
        return Result(sum(map(len, read)), exact=True, ids=list(read[0]) if job.wants_ids and read else [])
    own = (files.tool_template if question.tools else files.template) if job.template == "auto" else None
    try:
        if files.mistral is not None and job.template == "auto":
            return _mistral(files, job, own)
        if own is None:
            return _chat(files, job, files.chatml, exact=job.wants_prompt)
        return _chat(files, job, own, exact=not question.images)
    except ForgedTokenError as error:
        return Result(error=str(error))
    except ChatTemplateError as error:
        if job.wants_prompt:
            return Result(error=str(error))
        # The server lays the messages out, and may take what this template does not.
        return _chat(files, job, files.chatml, exact=False)


def _chat(files: ModelFiles, job: Count, template: ChatTemplate, *, exact: bool) -> Result:
    rendered = conversation.render(job.question, template)
    text, control_tokens = template.control.settle(rendered)
    tokens, read_as_control, read = 0, 0, list[int]()
    cut = template.control.apart(rendered) if job.wants_ids else [text]
    for part in (part for whole in cut for part in parts_of(whole)):
        ids = files.vocabulary.ids(part, False)
        tokens += len(ids)
        if job.wants_ids:
            read += ids
        read_as_control += sum(map(files.vocabulary.control_ids.__contains__, ids))
        if tokens > job.enough:
            break
    if read_as_control > control_tokens:
        # Its normalizer makes control tokens of other characters, such as full-width ones.
        raise ForgedTokenError(
            "a text of the messages would be read as a control token of the model: write it otherwise"
        )
    return Result(tokens, text.removeprefix(files.bos_if_added) if job.wants_prompt else "", exact, ids=read)


def _mistral(files: ModelFiles, job: Count, template: ChatTemplate | None) -> Result:
    assert files.mistral is not None
    prompt = ""
    if job.wants_prompt and not job.wants_ids:
        if template is None:
            raise ChatTemplateError(
                "the folder of the model's tokenizer has no chat template, which a server that takes text needs: "
                "add its chat_template.jinja"
            )
        text, _ = template.control.settle(conversation.render(job.question, template))
        prompt = text.removeprefix(files.bos_if_added)
    question: Question = job.question
    ids = files.mistral.chat(*conversation.as_openai(question))
    exact = not question.images
    return Result(len(ids), prompt, exact, ids=ids if job.wants_ids else [])


def _ids(files: ModelFiles, prompt: Prompt, enough: int) -> Sequence[int]:
    if not isinstance(prompt, str):
        return prompt
    ids = list[int]()
    for number, part in enumerate(parts_of(prompt)):
        ids += files.vocabulary.ids(part, not number)
        if len(ids) > enough:
            break
    return ids
