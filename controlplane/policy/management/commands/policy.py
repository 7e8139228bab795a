"""`manage.py policy check|apply|diff|export|replay`: policies as code, and decisions made again."""

import getpass
from collections import Counter
from typing import Any

from django.core.management.base import CommandError, CommandParser

from controlplane.core.documents.files import read_files
from controlplane.core.documents.plan import Applied
from controlplane.core.documents_command import FilesCommand, add_apply_and_diff, add_check, add_export
from controlplane.policy.decider import decider
from controlplane.policy.models import DecisionRecord
from controlplane.policy.replay import replayed
from controlplane.policy.revisions.apply import apply, check, export


class Command(FilesCommand):
    help = "Policies as files. Exit codes: 0 fine, 1 problems or (diff) something would change, 2 wrong usage."

    def add_arguments(self, parser: CommandParser) -> None:
        commands = parser.add_subparsers(dest="command", required=True, metavar="check|apply|diff|export|replay")
        add_check(commands, "check")
        for applied in add_apply_and_diff(commands, "policies", "retire"):
            applied.add_argument(
                "--to", choices=["active", "shadow", "draft"], default="active", help="how far at once"
            )
            applied.add_argument("--note", default="", help="why, such as the commit's subject")
            applied.add_argument("--again", action="store_true", help="bring back a text that was rolled back")
        add_export(commands, "names", "NAME", "all policies in force")
        again = commands.add_parser("replay", help="decide again from records; exits 1 if any decides otherwise")
        again.add_argument("keys", nargs="*", metavar="KEY", help="of decisions, as in their URLs; none: the latest")
        again.add_argument("--last", type=int, default=1_000, metavar="N", help="how many of the latest")

    def _check(self, options: dict[str, Any]) -> int:
        policies, problems = check(read_files(options["paths"]))
        self.write_report(problems, options["format"], f"{len(policies)} policies")
        return 1 if problems else 0

    def apply_files(self, options: dict[str, Any], dry_run: bool) -> Applied[int | None]:
        applied = apply(
            read_files(options["paths"]),
            label=options["owner_label"],
            who=getpass.getuser(),
            goal=options["to"],
            note=options["note"],
            prune=options["prune"],
            adopt=options["adopt"],
            again=options["again"],
            dry_run=dry_run,
        )
        self.write_applied(applied)
        return applied

    def _replay(self, options: dict[str, Any]) -> int:
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
        return 1 if different else 0

    def _export(self, options: dict[str, Any]) -> int:
        in_force = export(options["names"])
        if missing := sorted(set(options["names"]) - set(in_force)):
            raise CommandError(f"no policy in force is named {', '.join(missing)}", returncode=2)
        self.write_texts(in_force, options["to"])
        return 0
