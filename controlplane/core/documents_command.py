"""What the commands for files share: arguments, how they report, and how they end."""

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from controlplane.core.documents import report
from controlplane.core.documents.files import FilesError
from controlplane.core.documents.plan import Applied, managed_by
from controlplane.core.documents.problem import Problem
from controlplane.core.documents.writing import join_documents


class FilesCommand(BaseCommand):
    """Calls the method `_NAME` of the subcommand `NAME`, which returns the exit code. The code is 2 where files cannot be read."""

    def handle(self, **options: Any) -> None:
        try:
            code = getattr(self, f"_{options['command']}")(options)
        except FilesError as error:
            raise CommandError(str(error), returncode=2) from None
        if code:
            sys.exit(code)

    def _apply(self, options: dict[str, Any]) -> int:
        return 0 if self.apply_files(options, options["dry_run"]).possible else 1

    def _diff(self, options: dict[str, Any]) -> int:
        applied = self.apply_files(options, dry_run=True)
        return 1 if not applied.possible or applied.changes_something else 0

    def apply_files(self, options: dict[str, Any], dry_run: bool) -> Applied[Any]:
        """Apply `options["paths"]`, and report it."""
        raise NotImplementedError

    def write_report(self, problems: Sequence[Problem], form: str, read: str) -> None:
        """The problems as text, json or github. `read` is what was read, such as `3 documents`; the text alone says it."""
        if form == "json":
            self.stdout.write(json.dumps([report.problem_json(problem) for problem in problems], indent=2))
        elif form == "github":
            for problem in problems:
                self.stdout.write(report.github_command(problem))
        else:
            self.write_problems(problems)
            self.stdout.write(f"{read}: {report.count_problems(problems)}")

    def write_problems(self, problems: Sequence[Problem]) -> None:
        for problem in problems:
            self.stdout.write(problem.text(), self.style.ERROR if problem.severity == "error" else self.style.WARNING)

    def write_applied(self, applied: Applied[Any]) -> None:
        self.write_problems(applied.problems if applied.errors else [])
        for line in report.plan_lines(applied.steps):
            self.stdout.write(line)
        if applied.errors:
            self.stdout.write(f"Nothing was applied: {report.count_problems(applied.problems)}.")
        elif applied.conflicts:
            self.stdout.write(f"Nothing was applied: {len(applied.conflicts)} in conflict.")
        else:
            self.stdout.write(report.summarise(applied.steps, applied.done))

    def write_texts(self, texts: Mapping[str, str], folder: Path | None) -> None:
        """Documents by name: a file for each in the folder, or one text."""
        if folder is None:
            self.stdout.write(join_documents(texts.values()), ending="")
            return
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in texts.items():
            (folder / f"{name}.yaml").write_text(text)
        self.stdout.write(f"{len(texts)} written to {folder}")


def add_check(commands: Any, name: str) -> CommandParser:
    checked: CommandParser = commands.add_parser(name, help="list what to correct, with lines")
    checked.add_argument("paths", nargs="+", metavar="FILE|DIR")
    checked.add_argument("--format", choices=("text", "json", "github"), default="text")
    return checked


def add_apply_and_diff(commands: Any) -> list[CommandParser]:
    parsers: list[CommandParser] = []
    for name, words in (
        ("apply", "make the database equal to the files, all or none"),
        ("diff", "show what apply would do; exits 1 if anything"),
    ):
        applied: CommandParser = commands.add_parser(name, help=words)
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
        parsers.append(applied)
    parsers[0].add_argument("--dry-run", action="store_true", help="only show the plan")
    return parsers


def add_export(commands: Any, names: str, metavar: str, of_none: str) -> CommandParser:
    exported: CommandParser = commands.add_parser("export", help="write what is stored as files")
    exported.add_argument(names, nargs="*", metavar=metavar, help=f"none: {of_none}")
    exported.add_argument("--to", type=Path, metavar="DIR", help="a file for each, instead of one text")
    return exported
