"""`manage.py audit verify`, `head`, `prune`, `export`, and of tenants' texts `match` and `key`."""

import json
import os
import sys
from argparse import ArgumentParser
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, get_args

from django.core.management.base import BaseCommand, CommandError
from django.core.signing import BadSignature, Signer
from django.utils import timezone

from controlplane.audit.core.chain import START, first_break
from controlplane.audit.models import Entry, Head
from controlplane.core.acting import actor
from inference.contract.metering.text_audit import Part, TextHash, TextKey, key_of

MIN_DAYS = 90
_READ_BYTES = 1 << 20
_SIGNER = Signer(salt="weir.audit-head", sep=" ")


class Command(BaseCommand):
    help = "Checks the audit's chain, prints its signed head, or exports it as JSON lines; hashes texts as gateways do."

    def add_arguments(self, parser: ArgumentParser) -> None:
        steps = parser.add_subparsers(dest="step", required=True)
        verify = steps.add_parser("verify", help="exits with 1 where an entry was changed, removed, moved or added")
        verify.add_argument(
            "--head", type=Path, help="a file with a head that was printed before: it has to be in the chain"
        )
        steps.add_parser(
            "head", help="prints the number and hash of the last entry, signed with the installation's key"
        )
        prune = steps.add_parser("prune", help="removes the oldest entries, and appends one that says so")
        prune.add_argument("--days", type=int, required=True, help="entries that are older go, at least 90")
        export = steps.add_parser("export", help="prints entries as JSON lines, the oldest first")
        export.add_argument("--after", type=int, default=0, help="only entries with a higher number")
        match = steps.add_parser(
            "match", help="reads the body of a request or an answer, and prints the hash that its row has"
        )
        match.add_argument("part", choices=get_args(Part))
        key = steps.add_parser("key", help="prints the key of a tenant's hashes, as hex: it is a secret")
        for step in (match, key):
            step.add_argument("tenant")

    def handle(self, *args: Any, **options: Any) -> None:
        getattr(self, f"_{options['step']}")(options)

    def _verify(self, options: dict[str, Any]) -> None:
        head = self._checked(options["head"])
        self.stdout.write(f"{head.number - head.base_number} entries, whole: the last has the hash {head.hash}")

    def _checked(self, kept: Path | None) -> Head:
        """The head of a chain that is whole, and has the head in the file. Raises CommandError."""
        head = Head.objects.filter(pk=Head.ONLY).first() or Head()
        broken = first_break(Entry.links(), (head.number, head.hash), (head.base_number, head.base_hash))
        if not broken and kept:
            broken = self._kept(kept, head)
        if broken:
            raise CommandError(broken)
        return head

    def _kept(self, path: Path, now: Head) -> str:
        """What is wrong with the head in the file, or the chain since. Raises CommandError where that can no longer be said."""
        try:
            number, digest = _SIGNER.unsign(path.read_text().strip()).split()
        except (OSError, ValueError, BadSignature) as error:
            raise CommandError(f"{path} has no head of this installation: {error}") from error
        if int(number) == 0 and digest == START:
            return ""
        if (int(number), digest) == (now.base_number, now.base_hash):
            return ""
        if int(number) <= now.base_number:
            raise CommandError(
                f"the head in {path} is entry {number}, and those until {now.base_number} are pruned: take a newer one"
            )
        if not Entry.objects.filter(number=int(number), hash=digest).exists():
            return (
                f"the head in {path} is not in the chain: entry {number} was removed, or the chain was made anew since"
            )
        return ""

    def _head(self, options: dict[str, Any]) -> None:
        self.stdout.write(_SIGNER.sign(str(Head.objects.filter(pk=Head.ONLY).first() or Head())))

    def _prune(self, options: dict[str, Any]) -> None:
        if options["days"] < MIN_DAYS:
            raise CommandError(f"--days {options['days']}: keep {MIN_DAYS} days or more")
        self._checked(None)  # what was changed is not to be removed unseen
        count = Entry.prune(actor(), timezone.now() - timedelta(days=options["days"]))
        self.stdout.write(f"{count} entries are removed" if count else "no entry is older")

    def _export(self, options: dict[str, Any]) -> None:
        for entry in Entry.objects.filter(number__gt=options["after"]).order_by("number").iterator(chunk_size=1000):
            sys.stdout.write(json.dumps(entry.exported) + "\n")

    def _match(self, options: dict[str, Any]) -> None:
        text = TextHash(_text_key(options["tenant"]), options["part"])
        for data in iter(partial(sys.stdin.buffer.read, _READ_BYTES), b""):
            text.add(data)
        self.stdout.write(str(text))

    def _key(self, options: dict[str, Any]) -> None:
        self.stdout.write(_text_key(options["tenant"]).secret.hex())


def _text_key(tenant: str) -> TextKey:
    """Raises CommandError."""
    key = key_of(os.environ.get("WEIR_USER_HASH_KEY", ""), tenant)
    if not key.secret:
        raise CommandError("set WEIR_USER_HASH_KEY to what the gateways have")
    return key
