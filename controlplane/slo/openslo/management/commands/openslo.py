"""`manage.py openslo lint`: what is to be corrected in OpenSLO files."""

from typing import Any

from django.core.management.base import CommandParser

from controlplane.core.documents.files import read_files
from controlplane.core.documents_command import FilesCommand, add_check
from controlplane.slo.openslo.apply import known_documents
from controlplane.slo.openslo.core.lint import lint


class Command(FilesCommand):
    help = "Checks OpenSLO v1 files; ./weir applies and exports them. Exit codes: 0 fine, 1 errors, 2 wrong usage."

    def add_arguments(self, parser: CommandParser) -> None:
        commands = parser.add_subparsers(dest="command", required=True, metavar="lint")
        checked = add_check(commands, "lint")
        checked.add_argument("--strict", action="store_true", help="warnings fail too")
        checked.add_argument("--alone", action="store_true", help="do not look for references in the database")

    def _lint(self, options: dict[str, Any]) -> int:
        linted = lint(read_files(options["paths"]), [] if options["alone"] else known_documents())
        self.write_report(linted.problems, options["format"], f"{len(linted.documents)} documents")
        return 1 if linted.errors or (options["strict"] and linted.problems) else 0
