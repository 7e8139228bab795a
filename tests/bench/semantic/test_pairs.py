"""Pairs of a file: the forms in which PAWS, QQP and others have them, and errors that name the line."""

from pathlib import Path

import pytest

from tests.bench.semantic.pairs import PairsError, of_file


@pytest.mark.parametrize(
    "text",
    [
        'id\tsentence1\tsentence2\tlabel\n1\tthe "old" dam\tthe dam\t0\n2\ta weir\ta weir\t1\n',
        "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate\n7\t1\t2\tthe old dam\tthe dam\t0\n8\t3\t4\ta weir\ta weir\t1\n",
        'text1,text2,label\n"the old, ""old"" dam",the dam,0\na weir,a weir,1\n\n',
        "\ufefflabel,text2,text1\n0,the old dam,the dam\n1,a weir,a weir\n",
    ],
    ids=["PAWS", "QQP", "CSV", "other order"],
)
def test_pairs_of_a_file(tmp_path: Path, text: str) -> None:
    path = tmp_path / "pairs"
    path.write_text(text, encoding="utf-8")
    different, same = of_file(path)
    assert (different.wrong, same.wrong) == (True, False)
    assert same.similarity == pytest.approx(1)
    assert (different.reason, same.reason) != ("", "")


@pytest.mark.parametrize(
    ("data", "line", "reason"),
    [
        (b"", 1, "the first line"),
        (b"a,b\n", 1, "the first line"),
        (b"text1,text2,label\n", 1, "no pair"),
        (b"text1,text2,label\nx,y,1\nx,y\n", 3, "2 columns in place of 3"),
        (b"text1,text2,label\nx,y,1\nx,y,yes\n", 3, "'yes'"),
        (b"text1,text2,label\nx,,1\n", 2, "two texts"),
        (b"text1,text2,label\nx,\xff,1\n", 2, "utf-8"),
    ],
)
def test_a_bad_line_is_named(tmp_path: Path, data: bytes, line: int, reason: str) -> None:
    path = tmp_path / "pairs"
    path.write_bytes(data)
    with pytest.raises(PairsError, match=rf"pairs:{line}: .*{reason}"):
        of_file(path)
