"""Which tests run a line: known from one run of all of them, with the name of the test as coverage's context."""

import ast
import json
import time
from collections.abc import Generator, Iterable, Sequence
from pathlib import Path

import coverage
import pytest


class Recorder:
    """A plugin of pytest that notes which tests run a line of `folders`, fixtures included, and the CPU time of each, s."""

    def __init__(self, at: Path, folders: Sequence[str]) -> None:
        self._at, self._cpu_s, self._imports = at, dict[str, float](), dict[str, list[str]]()
        include = [str(at / folder / "*") for folder in folders]
        self._coverage = coverage.Coverage(None, include=include, config_file=False)
        self._coverage.start()

    @pytest.hookimpl(wrapper=True)
    def pytest_make_collect_report(
        self, collector: pytest.Collector
    ) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
        """What a module of tests calls for its parameters is run for all of its tests."""
        self._coverage.switch_context(collector.nodeid if isinstance(collector, pytest.Module) else "")
        done = yield
        self._coverage.switch_context("")
        return done

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, bool, bool]:
        began_s, name = time.process_time(), item.nodeid.partition("[")[0]
        self._coverage.switch_context(name)
        done = yield
        self._coverage.switch_context("")
        if name not in self._imports:
            values = vars(getattr(item, "module", item)).values()
            modules = {getattr(value, "__module__", None) or getattr(value, "__name__", None) for value in values}
            self._imports[name] = [module for module in modules if isinstance(module, str)]
        self._cpu_s[name] = self._cpu_s.get(name, 0.0) + time.process_time() - began_s
        return done

    def save(self, file: Path) -> None:
        self._coverage.stop()
        data = self._coverage.get_data()
        lines = {str(Path(path).relative_to(self._at)): data.contexts_by_lineno(path) for path in data.measured_files()}
        file.write_text(json.dumps({"lines": lines, "cpu_s": self._cpu_s, "imports": self._imports}))


class Reach:
    """What a recorder has saved."""

    def __init__(self, file: Path) -> None:
        saved = json.loads(file.read_text())
        self._lines: dict[str, dict[str, list[str]]] = saved["lines"]
        self._cpu_s: dict[str, float] = saved["cpu_s"]
        self._imports = {name: frozenset(modules) for name, modules in saved["imports"].items()}

    def tests(self, path: str, line: int, source: str) -> list[str]:
        """The tests that run the statement at this line, the quickest first. Of one that runs at import, those that run any line of the
        file or import anything of it, and all where none does: it may have nothing but values.
        """
        lines = self._lines.get(path, {})
        first, last, in_function = _statement(source, line)
        names = self._named(lines, range(first, last + 1), modules=in_function)
        if not names and not in_function:
            module = path.removesuffix(".py").replace("/", ".")
            names = self._named(lines, map(int, lines)) | {name for name, of in self._imports.items() if module in of}
            names = names or set(self._cpu_s)
        return sorted(names, key=lambda name: self._cpu_s[name])

    def is_run_at_import(self, path: str, line: int, source: str) -> bool:
        """Whether more than tests runs the statement at this line, such as what makes their parameters."""
        first, last, _ = _statement(source, line)
        lines = self._lines.get(path, {})
        return any("::" not in name for number in range(first, last + 1) for name in lines.get(str(number), ()))

    def cpu_s(self, tests: Iterable[str]) -> float:
        return sum(self._cpu_s[name] for name in tests)

    def _named(self, lines: dict[str, list[str]], numbers: Iterable[int], *, modules: bool = False) -> set[str]:
        names = {name for number in numbers for name in lines.get(str(number), ())}
        return {name for name in self._cpu_s if name in names or (modules and name.partition("::")[0] in names)}


def _statement(source: str, line: int) -> tuple[int, int, bool]:
    """The first and last line of the smallest statement at a line, of one with a body its head alone; and whether a function has it."""
    smallest, in_function = (1, len(source.splitlines())), False
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.stmt) and node.end_lineno and node.lineno <= line <= node.end_lineno:
            body = getattr(node, "body", None)
            inside = bool(body) and line >= body[0].lineno
            in_function |= inside and isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
            span = (node.lineno, body[0].lineno - 1 if body and not inside else node.end_lineno)
            if not inside and span[1] - span[0] <= smallest[1] - smallest[0]:
                smallest = span
    return *smallest, in_function
