"""Published OpenSLO examples with one part replaced, which the linter must refuse."""

from pathlib import Path

from controlplane.slo.openslo.core.lint import lint

Spoilt = tuple[str, str, str, tuple[int, int], str]
"""File, what is replaced (its first occurrence), by what, line and column of the error, and a part of its message."""


def assert_refused(shared_dir: Path, name: str, old: str, new: str, place: tuple[int, int], words: str) -> None:
    texts = {path.name: path.read_text() for path in (shared_dir / "fixtures" / "openslo").glob("*.yaml")}
    before = {problem.message for problem in lint(texts).errors}
    assert old in texts[name]
    texts[name] = texts[name].replace(old, new, 1)
    problems = [problem for problem in lint(texts).errors if problem.message not in before]
    assert any(problem.source == name and problem.mark == place and words in problem.message for problem in problems), [
        problem.text() for problem in problems
    ]
