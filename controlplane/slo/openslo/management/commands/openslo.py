"""`manage.py openslo lint|apply|diff|import|export`: objectives as code."""

import getpass
from typing import Any

from django.core.management.base import CommandError, CommandParser

from controlplane.core.documents.files import read_files
from controlplane.core.documents.plan import Applied
from controlplane.core.documents_command import FilesCommand, add_apply_and_diff, add_check, add_export
from controlplane.slo.models import StoredObjective
from controlplane.slo.openslo.apply import apply, known_documents
from controlplane.slo.openslo.core.lint import lint
from controlplane.slo.openslo.export import export_all, export_one


class Command(FilesCommand):
    help = (
        "Objectives as OpenSLO v1 files. Exit codes: 0 fine, 1 errors or (diff) something would change, 2 wrong usage."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        commands = parser.add_subparsers(dest="command", required=True, metavar="lint|apply|diff|import|export")
        checked = add_check(commands, "lint")
        checked.add_argument("--strict", action="store_true", help="warnings fail too")
        checked.add_argument("--alone", action="store_true", help="do not look for references in the database")
        add_apply_and_diff(commands, "openslo", "delete")
        imported = commands.add_parser("import", help="import objectives once; edit them here afterwards")
        imported.add_argument("paths", nargs="+", metavar="FILE|DIR")
        imported.add_argument("--dry-run", action="store_true")
        imported.set_defaults(owner_label="", prune=False, adopt=False)
        add_export(commands, "slugs", "SLUG", "all of them, and all other applied documents")

    def _lint(self, options: dict[str, Any]) -> int:
        linted = lint(read_files(options["paths"]), [] if options["alone"] else known_documents())
        self.write_report(linted.problems, options["format"], f"{len(linted.documents)} documents")
        return 1 if linted.errors or (options["strict"] and linted.problems) else 0

    def apply_files(self, options: dict[str, Any], dry_run: bool) -> Applied[str]:
        applied = apply(
            read_files(options["paths"]),
            label=options["owner_label"],
            who=f"openslo ({getpass.getuser()})",
            prune=options["prune"],
            adopt=options["adopt"],
            dry_run=dry_run,
        )
        self.write_applied(applied)
        return applied

    _import = FilesCommand._apply

    def _export(self, options: dict[str, Any]) -> int:
        rows = StoredObjective.objects.select_related("owner")
        if options["slugs"]:
            rows = rows.filter(slug__in=options["slugs"])
            if missing := sorted(set(options["slugs"]) - {row.slug for row in rows}):
                raise CommandError(f"no objective {', '.join(missing)}", returncode=2)
        if options["slugs"] or options["to"]:
            self.write_texts({row.slug: export_one(row) for row in rows}, options["to"])
        else:
            self.stdout.write(export_all(), ending="")
        return 0
