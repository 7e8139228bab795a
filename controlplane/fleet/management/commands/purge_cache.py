"""`manage.py purge_cache`: no cached answer from before is met again."""

from argparse import ArgumentTypeError
from typing import Any

from django.core.exceptions import ValidationError
from django.core.management.base import BaseCommand, CommandError, CommandParser

from controlplane.fleet.models import LLMModel, Tenant
from controlplane.fleet.purge import purge_answers, purge_tag, purge_version
from controlplane.fleet.validators import CACHE_KEY


def _key(text: str) -> str:
    if not CACHE_KEY.fullmatch(text):
        raise ArgumentTypeError("give the 64 digits of an x-weir-cache-key")
    return text


class Command(BaseCommand):
    help = "Purges the cached answers of a model, its prompt version, a tenant or a tag, or one answer. Gateways obey within a second."

    def add_arguments(self, parser: CommandParser) -> None:
        what = parser.add_mutually_exclusive_group(required=True)
        what.add_argument("--model", help="for all tenants")
        what.add_argument("--tenant", help="of all models that do not share answers between tenants")
        what.add_argument("--key", type=_key, help="one answer, by its x-weir-cache-key")
        what.add_argument("--tag", help="of requests that name it in x-weir-cache-tags")
        parser.add_argument("--prompt-version", help="of the model: the answers of this version alone")

    def handle(self, *args: Any, **options: Any) -> None:
        version = options["prompt_version"]
        if version is not None and not options["model"]:
            raise CommandError("--prompt-version is one of a model: give --model too", returncode=2)
        try:
            if tag := options["tag"] or options["key"]:
                purges = purge_tag(tag)
            elif name := options["tenant"]:
                purges = purge_answers(Tenant.objects.get(name=name))
            else:
                model = LLMModel.objects.get(name=options["model"])
                purges = purge_answers(model) if version is None else purge_version(model, version)
        except (LLMModel.DoesNotExist, Tenant.DoesNotExist):
            raise CommandError("there is none of this name: give it as the admin has it", returncode=2) from None
        except ValidationError as error:
            raise CommandError(" ".join(error.messages), returncode=2) from None
        self.stdout.write(f"purged, {purges} times by now")
