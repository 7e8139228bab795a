"""What the commands for files of objectives and of policies share: how they end, and how they list problems."""

import json
import sys
from collections.abc import Sequence
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from controlplane.slo.openslo.core import report
from controlplane.slo.openslo.core.problem import Problem
from controlplane.slo.openslo.files import FilesError

FORMATS = ("text", "json", "github")


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
        """The problems in one of FORMATS. `read` is what was read, such as `3 documents`; the text alone says it."""
        if form == "json":
            self.stdout.write(json.dumps([report.as_json(problem) for problem in problems], indent=2))
        elif form == "github":
            for problem in problems:
                self.stdout.write(report.as_github(problem))
        else:
            self.write_problems(problems)
            self.stdout.write(f"{read}: {report.counted(problems)}")

    def write_problems(self, problems: Sequence[Problem]) -> None:
        for problem in problems:
            self.stdout.write(problem.text(), self.style.ERROR if problem.severity == "error" else self.style.WARNING)
