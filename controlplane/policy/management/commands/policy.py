"""`manage.py policy replay`: decisions made again."""

import sys
from collections import Counter
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from controlplane.policy.decider import decider
from controlplane.policy.models import DecisionRecord
from controlplane.policy.replay import replayed


class Command(BaseCommand):
    help = "Decisions made again. Policies as files: ./weir apply."

    def add_arguments(self, parser: CommandParser) -> None:
        commands = parser.add_subparsers(dest="command", required=True, metavar="replay")
        again = commands.add_parser("replay", help="decide again from records; exits 1 if any decides otherwise")
        again.add_argument("keys", nargs="*", metavar="KEY", help="of decisions, as in their URLs; none: the latest")
        again.add_argument("--last", type=int, default=1_000, metavar="N", help="how many of the latest")

    def handle(self, **options: Any) -> None:
        keys: list[str] = options["keys"]
        rows = DecisionRecord.objects.filter(key__in=keys) if keys else DecisionRecord.objects.all()[: options["last"]]
        if missing := set(keys) - {row.key for row in rows}:
            raise CommandError(f"no decision has the key {', '.join(sorted(missing))}", returncode=2)
        outcomes = list(replayed(rows))
        different = [each for each in outcomes if each.problem]
        for each in different:
            self.stdout.write(f"{each.row.key} of {each.row.at:%Y-%m-%d %H:%M:%S}: {each.problem}", self.style.ERROR)
        for other, count in sorted(Counter(each.other for each in outcomes if each.other and not each.problem).items()):
            self.stdout.write(f"{count} of them were made by {other}, and this is {decider()}.")
        same = len(outcomes) - len(different)
        self.stdout.write(f"{same} of {len(outcomes)} decisions are made again, byte for byte.")
        if different:
            sys.exit(1)
