"""Counts a question with a model's own files, and makes the text of its prompt."""

from inference.core.question import Prompt, Question
from inference.core.templates import conversation
from inference.core.templates.chat_template import ChatTemplate
from inference.core.templates.errors import ChatTemplateError, ForgedTokenError
from inference.core.text import parts_of
from inference.tokenizers.frames import Job, Result
from inference.tokenizers.model_files import ModelFiles


def count(files: ModelFiles, job: Job) -> Result:
    """The tokens of `job`; with an error, for the client, where the messages cannot be laid out."""
    question = job.question
    if question.operation != "chat":
        return Result(sum(_ids(files, prompt, job.enough) for prompt in question.prompt or question.input), exact=True)
    own = (files.tool_template if question.tools else files.template) if job.template == "auto" else None
    try:
        if files.mistral is not None and job.template == "auto":
            return _mistral(files, job, own)
        if own is None:
            return _chat(files, job, files.chatml, exact=job.wants_prompt)
        return _chat(files, job, own, exact=not conversation.has_images(question))
    except ForgedTokenError as error:
        return Result(error=str(error))
    except ChatTemplateError as error:
        if job.wants_prompt:
            return Result(error=str(error))
        # The server lays the messages out, and may take what this template does not.
        return _chat(files, job, files.chatml, exact=False)


def _chat(files: ModelFiles, job: Job, template: ChatTemplate, *, exact: bool) -> Result:
    text, control_tokens = conversation.render(job.question, template)
    tokens = read_as_control = 0
    for part in parts_of(text):
        ids = files.vocabulary.ids(part, False)
        tokens += len(ids)
        read_as_control += sum(map(files.vocabulary.control_ids.__contains__, ids))
        if tokens > job.enough:
            break
    if read_as_control > control_tokens:
        # Its normalizer makes control tokens of other characters, such as full-width ones.
        raise ForgedTokenError(
            "a text of the messages would be read as a control token of the model: write it otherwise"
        )
    return Result(tokens, text.removeprefix(files.bos_if_added) if job.wants_prompt else "", exact)


def _mistral(files: ModelFiles, job: Job, template: ChatTemplate | None) -> Result:
    assert files.mistral is not None
    prompt = ""
    if job.wants_prompt:
        if template is None:
            raise ChatTemplateError(
                "the folder of the model's tokenizer has no chat template, which a server that takes text needs: "
                "add its chat_template.jinja"
            )
        prompt = conversation.render(job.question, template)[0].removeprefix(files.bos_if_added)
    question: Question = job.question
    tokens = len(files.mistral.chat(*conversation.as_openai(question)))
    return Result(tokens, prompt, exact=not conversation.has_images(question))


def _ids(files: ModelFiles, prompt: Prompt, enough: int) -> int:
    if not isinstance(prompt, str):
        return len(prompt)
    tokens = 0
    for number, part in enumerate(parts_of(prompt)):
        tokens += len(files.vocabulary.ids(part, not number))
        if tokens > enough:
            break
    return tokens
