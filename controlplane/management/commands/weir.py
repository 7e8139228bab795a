"""`manage.py weir check|apply|diff|export|crds`: what people enter as files: fleet, policies and objectives."""

from collections.abc import Mapping
from typing import Any

from django.core.management.base import CommandError, CommandParser

from controlplane.core.documents.files import read_files
from controlplane.core.documents.plan import Applied
from controlplane.core.documents.writing import join_documents, write_yaml
from controlplane.core.documents_command import FilesCommand, add_apply_and_diff, add_check, add_export
from controlplane.fleet.files.kinds import KINDS
from controlplane.sources import crds, documents


class Command(FilesCommand):
    help = "Fleet, policies and objectives as files. Exit codes: 0 fine, 1 problems or (diff) something would change, 2 wrong usage."

    def add_arguments(self, parser: CommandParser) -> None:
        commands = parser.add_subparsers(dest="command", required=True, metavar="check|apply|diff|export|crds")
        add_check(commands, "check")
        for applied in add_apply_and_diff(commands):
            applied.add_argument("--note", default="", help="why, such as the commit's subject")
            applied.add_argument(
                "--to", choices=["active", "shadow", "draft"], default="active", help="how far policies go at once"
            )
            applied.add_argument("--again", action="store_true", help="bring back policies that were rolled back")
        exported = add_export(commands, "kinds", "KIND", "the whole fleet, all policies in force, and all objectives")
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

    def apply_files(self, options: dict[str, Any], dry_run: bool) -> Applied[Any]:
        applied = self._applied(options, dry_run)
        self.write_applied(applied)
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
        self.write_texts(documents.export(options["kinds"], options["team"]), options["to"])
        return 0

    def _crds(self, options: dict[str, Any]) -> int:
        self.stdout.write(join_documents(map(write_yaml, crds.definitions())), ending="")
        return 0
