"""`manage.py policy check|apply|diff|export|replay`: policies as code, and decisions made again."""

import getpass
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError, CommandParser

from controlplane.policy.models import DecisionRecord
from controlplane.policy.replay import replayed
from controlplane.policy.revisions.apply import Applied, apply, check, export
from controlplane.policy.revisions.core.apply_plan import SIGNS, Step, sentence
from controlplane.slo.openslo.command import FORMATS, FilesCommand
from controlplane.slo.openslo.core import report
from controlplane.slo.openslo.core.writing import joined
from controlplane.slo.openslo.files import texts

DEFAULT_LABEL = "policies"


class Command(FilesCommand):
    help = "Policies as files. Exit codes: 0 fine, 1 problems or (diff) something would change, 2 wrong usage."

    def add_arguments(self, parser: CommandParser) -> None:
        commands = parser.add_subparsers(dest="command", required=True, metavar="check|apply|diff|export|replay")
        checked = commands.add_parser("check", help="list what to correct, with lines")
        checked.add_argument("paths", nargs="+", metavar="FILE|DIR")
        checked.add_argument("--format", choices=FORMATS, default="text")
        for name, words in (
            ("apply", "make the database's policies equal to the files, all or none"),
            ("diff", "show what apply would do; exits 1 if anything"),
        ):
            applied = commands.add_parser(name, help=words)
            applied.add_argument("paths", nargs="+", metavar="FILE|DIR")
            applied.add_argument(
                "--to", choices=["active", "shadow", "draft"], default="active", help="how far at once"
            )
            applied.add_argument("--owner-label", default=DEFAULT_LABEL, help="marks what these files own")
            applied.add_argument("--note", default="", help="why, such as the commit's subject")
            applied.add_argument("--prune", action="store_true", help="retire what has the label and is in no file")
            applied.add_argument("--adopt", action="store_true", help="take over what was written by hand or elsewhere")
            applied.add_argument("--again", action="store_true", help="bring back a text that was rolled back")
            if name == "apply":
                applied.add_argument("--dry-run", action="store_true", help="only show the plan")
        exported = commands.add_parser("export", help="write the texts in force")
        exported.add_argument("names", nargs="*", metavar="NAME", help="none: all policies in force")
        exported.add_argument("--to", type=Path, metavar="DIR", help="a file for each, instead of one text")
        again = commands.add_parser("replay", help="decide again from records; exits 1 if any decides otherwise")
        again.add_argument("keys", nargs="*", metavar="KEY", help="of decisions, as in their URLs; none: the latest")
        again.add_argument("--last", type=int, default=1_000, metavar="N", help="how many of the latest")

    def _check(self, options: dict[str, Any]) -> int:
        policies, problems = check(texts(options["paths"]))
        self.write_report(problems, options["format"], f"{len(policies)} policies")
        return 1 if problems else 0

    def _apply(self, options: dict[str, Any]) -> int:
        return 0 if self._applied(options, options["dry_run"]).possible else 1

    def _diff(self, options: dict[str, Any]) -> int:
        applied = self._applied(options, dry_run=True)
        return (
            1 if not applied.possible or any(step.action not in ("unchanged", "waits") for step in applied.steps) else 0
        )

    def _applied(self, options: dict[str, Any], dry_run: bool) -> Applied:
        applied = apply(
            texts(options["paths"]),
            label=options["owner_label"],
            who=getpass.getuser(),
            goal=options["to"],
            note=options["note"],
            prune=options["prune"],
            adopt=options["adopt"],
            again=options["again"],
            dry_run=dry_run,
        )
        self.write_problems(applied.problems)
        for step in applied.steps:
            self._step(step)
        if applied.problems:
            self.stdout.write(f"Nothing was applied: {report.counted(applied.problems)}.")
        elif applied.conflicts:
            self.stdout.write(f"Nothing was applied: {len(applied.conflicts)} in conflict.")
        else:
            self.stdout.write(sentence(applied.steps, applied.done))
        return applied

    def _step(self, step: Step) -> None:
        note = f" ({step.note})" if step.note else ""
        self.stdout.write(f"{SIGNS[step.action]} {step.kind} {step.name}{note}")
        for change in step.changes:
            self.stdout.write(f"    {report.change_text(change)}")

    def _replay(self, options: dict[str, Any]) -> int:
        keys: list[str] = options["keys"]
        rows = DecisionRecord.objects.filter(key__in=keys) if keys else DecisionRecord.objects.all()[: options["last"]]
        if missing := set(keys) - {row.key for row in rows}:
            raise CommandError(f"no decision has the key {', '.join(sorted(missing))}", returncode=2)
        outcomes = list(replayed(rows))
        different = [each for each in outcomes if each.problem]
        for row, problem in different:
            self.stdout.write(f"{row.key} of {row.at:%Y-%m-%d %H:%M:%S}: {problem}", self.style.ERROR)
        same = len(outcomes) - len(different)
        self.stdout.write(f"{same} of {len(outcomes)} decisions are made again, byte for byte.")
        return 1 if different else 0

    def _export(self, options: dict[str, Any]) -> int:
        in_force = export(options["names"])
        if missing := sorted(set(options["names"]) - set(in_force)):
            raise CommandError(f"no policy in force is named {', '.join(missing)}", returncode=2)
        folder: Path | None = options["to"]
        if folder is None:
            self.stdout.write(joined(in_force.values()), ending="")
            return 0
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in in_force.items():
            (folder / f"{name}.yaml").write_text(text)
        self.stdout.write(f"{len(in_force)} written to {folder}")
        return 0
