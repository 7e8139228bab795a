"""`manage.py openslo lint|apply|diff|import|export`: objectives as code."""

import getpass
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError, CommandParser

from controlplane.slo.models import StoredObjective
from controlplane.slo.openslo.apply import Applied, apply, known_documents
from controlplane.slo.openslo.command import FORMATS, FilesCommand
from controlplane.slo.openslo.core import report
from controlplane.slo.openslo.core.lint import lint
from controlplane.slo.openslo.export import export_all, export_one
from controlplane.slo.openslo.files import texts

DEFAULT_LABEL = "openslo"


class Command(FilesCommand):
    help = (
        "Objectives as OpenSLO v1 files. Exit codes: 0 fine, 1 errors or (diff) something would change, 2 wrong usage."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        commands = parser.add_subparsers(dest="command", required=True, metavar="lint|apply|diff|import|export")
        checked = commands.add_parser("lint", help="list what to correct, with lines")
        checked.add_argument("paths", nargs="+", metavar="FILE|DIR")
        checked.add_argument("--format", choices=FORMATS, default="text")
        checked.add_argument("--strict", action="store_true", help="warnings fail too")
        checked.add_argument("--alone", action="store_true", help="do not look for references in the database")
        for name, words in (
            ("apply", "apply the files to the database, all or nothing"),
            ("diff", "show what apply would change; exits 1 if anything"),
        ):
            applied = commands.add_parser(name, help=words)
            applied.add_argument("paths", nargs="+", metavar="FILE|DIR")
            applied.add_argument("--owner-label", default=DEFAULT_LABEL, help="marks what these files own")
            applied.add_argument(
                "--prune", action="store_true", help="delete what has the label and is in none of the files"
            )
            applied.add_argument(
                "--adopt", action="store_true", help="take over what was made by hand or has another label"
            )
            if name == "apply":
                applied.add_argument("--dry-run", action="store_true", help="only show the plan")
        imported = commands.add_parser("import", help="import objectives once; edit them here afterwards")
        imported.add_argument("paths", nargs="+", metavar="FILE|DIR")
        imported.add_argument("--dry-run", action="store_true")
        exported = commands.add_parser("export", help="write objectives as OpenSLO")
        exported.add_argument(
            "slugs", nargs="*", metavar="SLUG", help="none: all of them, and all other applied documents"
        )
        exported.add_argument("--to", type=Path, metavar="DIR", help="a file for each, instead of one text")

    def _lint(self, options: dict[str, Any]) -> int:
        known = [] if options["alone"] else known_documents()
        linted = lint(texts(options["paths"]), known)
        self.write_report(linted.problems, options["format"], f"{len(linted.documents)} documents")
        return 1 if linted.errors or (options["strict"] and linted.problems) else 0

    def _apply(self, options: dict[str, Any]) -> int:
        applied = self._applied(options, options["owner_label"], options["dry_run"])
        return 0 if applied.possible else 1

    def _diff(self, options: dict[str, Any]) -> int:
        applied = self._applied(options, options["owner_label"], dry_run=True)
        return 1 if not applied.possible or any(step.action != "unchanged" for step in applied.steps) else 0

    def _import(self, options: dict[str, Any]) -> int:
        applied = self._applied({**options, "prune": False, "adopt": False}, "", options["dry_run"])
        return 0 if applied.possible else 1

    def _applied(self, options: dict[str, Any], label: str, dry_run: bool) -> Applied:
        applied = apply(
            texts(options["paths"]),
            label=label,
            who=f"openslo ({getpass.getuser()})",
            prune=options["prune"],
            adopt=options["adopt"],
            dry_run=dry_run,
        )
        self.write_problems(applied.problems if applied.errors else [])
        for line in report.lines(applied.steps):
            self.stdout.write(line)
        if applied.errors:
            self.stdout.write(f"Nothing was applied: {report.counted(applied.problems)}.")
        elif applied.conflicts:
            self.stdout.write(f"Nothing was applied: {len(applied.conflicts)} in conflict.")
        else:
            self.stdout.write(report.sentence(applied.steps, applied.done))
        return applied

    def _export(self, options: dict[str, Any]) -> int:
        rows = StoredObjective.objects.select_related("owner")
        if options["slugs"]:
            rows = rows.filter(slug__in=options["slugs"])
            if missing := sorted(set(options["slugs"]) - {row.slug for row in rows}):
                raise CommandError(f"no objective {', '.join(missing)}", returncode=2)
        folder: Path | None = options["to"]
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
            for row in rows:
                (folder / f"{row.slug}.yaml").write_text(export_one(row))
            self.stdout.write(f"{len(rows)} written to {folder}")
        elif options["slugs"]:
            self.stdout.write("---\n".join(export_one(row) for row in rows), ending="")
        else:
            self.stdout.write(export_all(), ending="")
        return 0
