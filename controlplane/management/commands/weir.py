"""`manage.py weir check|apply|diff|export|crds`: what people enter as files: fleet, policies and objectives."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError, CommandParser

from controlplane.core.documents import report
from controlplane.core.documents.files import read_files
from controlplane.core.documents.plan import Applied, managed_by
from controlplane.core.documents.writing import join_documents, write_yaml
from controlplane.core.documents_command import FilesCommand, add_check
from controlplane.fleet.files.kinds import KINDS
from controlplane.sources import crds, documents


class Command(FilesCommand):
    help = "Fleet, policies and objectives as files. Exit codes: 0 fine, 1 problems or (diff) something would change, 2 wrong usage."

    def add_arguments(self, parser: CommandParser) -> None:
        commands = parser.add_subparsers(dest="command", required=True, metavar="check|apply|diff|export|crds")
        add_check(commands, "check")
        applied = commands.add_parser("apply", help="make the database equal to the files, all or none")
        applied.add_argument("--dry-run", action="store_true", help="only show the plan")
        for each in (applied, commands.add_parser("diff", help="show what apply would do; exits 1 if anything")):
            _add_options(each)
        exported = commands.add_parser("export", help="write what is stored as files")
        exported.add_argument("kinds", nargs="*", metavar="KIND", help="none: all of them")
        exported.add_argument("--to", type=Path, metavar="DIR", help="a file for each, instead of one text")
        exported.add_argument("--team", default="", help="only what is this team's")
        commands.add_parser("crds", help="write the definitions of custom resources, for kubectl apply")

    def _check(self, options: dict[str, Any]) -> int:
        """As an apply would find it, because documents refer to what others of them make."""
        applied = self._applied(
            options
            | {"owner_label": "files", "prune": False, "adopt": True, "note": "", "to": "active", "again": True},
            dry_run=True,
        )
        self.write_report(applied.problems, options["format"], f"{applied.documents} documents")
        return 1 if applied.errors else 0

    def _apply(self, options: dict[str, Any]) -> int:
        return 0 if self._reported(options, options["dry_run"]).possible else 1

    def _diff(self, options: dict[str, Any]) -> int:
        applied = self._reported(options, dry_run=True)
        return 1 if not applied.possible or applied.changes_something else 0

    def _reported(self, options: dict[str, Any], dry_run: bool) -> Applied[Any]:
        applied = self._applied(options, dry_run)
        self.write_problems(applied.problems if applied.errors else [])
        for line in report.plan_lines(applied.steps):
            self.stdout.write(line)
        if applied.errors:
            self.stdout.write(f"Nothing was applied: {report.count_problems(applied.problems)}.")
        elif applied.conflicts:
            self.stdout.write(f"Nothing was applied: {len(applied.conflicts)} in conflict.")
        else:
            self.stdout.write(report.summarise(applied.steps, applied.done))
        return applied

    @staticmethod
    def _applied(options: Mapping[str, Any], dry_run: bool) -> Applied[Any]:
        return documents.apply(
            read_files(options["paths"]),
            label=options["owner_label"],
            note=options["note"],
            prune=options["prune"],
            adopt=options["adopt"],
            goal=options["to"],
            again=options["again"],
            dry_run=dry_run,
        )

    def _export(self, options: dict[str, Any]) -> int:
        if unknown := sorted(set(options["kinds"]) - {*KINDS, *documents.OTHERS}):
            known = ", ".join((*KINDS, *documents.OTHERS))
            raise CommandError(f"no kind is named {', '.join(unknown)}: use {known}", returncode=2)
        texts, folder = documents.export(options["kinds"], options["team"]), options["to"]
        if folder is None:
            self.stdout.write(join_documents(texts.values()), ending="")
            return 0
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in texts.items():
            (folder / f"{name}.yaml").write_text(text)
        self.stdout.write(f"{len(texts)} written to {folder}")
        return 0

    def _crds(self, options: dict[str, Any]) -> int:
        self.stdout.write(join_documents(map(write_yaml, crds.definitions())), ending="")
        return 0


def _add_options(applied: CommandParser) -> None:
    applied.add_argument("paths", nargs="+", metavar="FILE|DIR")
    owner = applied.add_mutually_exclusive_group()
    owner.add_argument("--owner-label", default="files", help="marks what these files own")
    owner.add_argument(
        "--managed-by",
        dest="owner_label",
        type=managed_by,
        metavar="NAME",
        help="the same, and it is changed by these files alone: forms and REST refuse to",
    )
    applied.add_argument(
        "--prune", action="store_true", help="delete what has the label and is in no file; policies: retire"
    )
    applied.add_argument("--adopt", action="store_true", help="take over what was made by hand or elsewhere")
    applied.add_argument("--note", default="", help="why, such as the commit's subject")
    applied.add_argument(
        "--to", choices=["active", "shadow", "draft"], default="active", help="how far policies go at once"
    )
    applied.add_argument("--again", action="store_true", help="bring back policies that were rolled back")
