"""What the commands for files share: arguments, how they report, and how they end."""

import json
import sys
from collections.abc import Sequence
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from controlplane.core.documents import report
from controlplane.core.documents.files import FilesError
from controlplane.core.documents.problem import Problem


class FilesCommand(BaseCommand):
    """Calls the method `_NAME` of the subcommand `NAME`, which returns the exit code. The code is 2 where files cannot be read."""

    def handle(self, **options: Any) -> None:
        try:
            code = getattr(self, f"_{options['command']}")(options)
        except FilesError as error:
            raise CommandError(str(error), returncode=2) from None
        if code:
            sys.exit(code)

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


def add_check(commands: Any, name: str) -> CommandParser:
    checked: CommandParser = commands.add_parser(name, help="list what to correct, with lines")
    checked.add_argument("paths", nargs="+", metavar="FILE|DIR")
    checked.add_argument("--format", choices=("text", "json", "github"), default="text")
    return checked
