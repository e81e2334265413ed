"""Text files: plain or packed, and what is said of a bad one."""

import gzip
import io
import lzma
import sys

import pytest

from lowrank_jax.checks import InputError
from lowrank_jax.data import open_text, read_bytes, read_text

TEXT = "first line\nzwölf 世纪\r\nlast"


@pytest.fixture(params=["a.txt", "a.txt.gz", "a.txt.xz"])
def path(request, tmp_path):
    """Write TEXT behind a byte order mark, packed as the suffix says."""
    content = ("\ufeff" + TEXT).encode()
    packed = {"gz": gzip.compress, "xz": lzma.compress}.get(request.param[-2:], bytes)
    path = tmp_path / request.param
    path.write_bytes(packed(content))
    return path


def test_all_forms_hold_the_same_text_without_its_mark(path):
    assert read_text(path) == TEXT
    assert read_text(str(path)) == TEXT
    assert read_bytes(path) == b"\xef\xbb\xbf" + TEXT.encode()


def test_open_text_gives_lines(path):
    with open_text(path) as stream:
        assert list(stream) == ["first line\n", "zwölf 世纪\n", "last"]


def test_only_a_leading_mark_is_stripped(tmp_path):
    (tmp_path / "a").write_text("a\ufeffb", encoding="utf-8")
    assert read_text(tmp_path / "a") == "a\ufeffb"


def test_other_encodings_are_read(tmp_path):
    (tmp_path / "a").write_bytes("zwölf".encode("latin-1"))
    assert read_text(tmp_path / "a", encoding="latin-1") == "zwölf"
    with pytest.raises(InputError, match="`encoding` .* got 'no-such'"):
        read_text(tmp_path / "a", encoding="no-such")


def test_a_dash_is_standard_input(monkeypatch):
    stdin = io.TextIOWrapper(io.BytesIO("世纪\n".encode()), encoding="ascii")
    monkeypatch.setattr(sys, "stdin", stdin)
    assert read_text("-") == "世纪\n"


def test_the_line_of_the_first_invalid_byte_is_named(tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes("eins\nzwei\nzwölf".encode("latin-1"))
    with pytest.raises(InputError, match=r"a\.txt:3 is not utf-8 .*0xf6.*iconv"):
        read_text(path)


def test_a_zero_byte_is_named(tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes(b"a\nb\0")
    with pytest.raises(InputError, match=r"a\.txt:2 holds a zero byte"):
        read_text(path)


def test_missing_files_and_folders_are_named(tmp_path):
    with pytest.raises(InputError, match="no.txt.xz does not exist"):
        read_text(tmp_path / "no.txt.xz")
    with pytest.raises(InputError, match="is a folder"):
        read_text(tmp_path)


@pytest.mark.parametrize("form", ["gz", "xz"])
def test_a_truncated_archive_is_named_with_its_last_readable_line(tmp_path, form):
    lines = b"".join(b"line %d\n" % i for i in range(20000))
    packed = {"gz": gzip.compress, "xz": lzma.compress}[form](lines)
    path = tmp_path / f"a.{form}"
    path.write_bytes(packed[: len(packed) // 2])
    with pytest.raises(InputError, match="truncated or damaged") as caught:
        read_text(path)
    line = int(str(caught.value).split("up to line ")[1].split(";")[0])
    assert 0 < line < 20000


@pytest.mark.parametrize("form", ["gz", "xz"])
def test_a_file_that_is_no_archive_is_named(tmp_path, form):
    path = tmp_path / f"a.{form}"
    path.write_bytes(b"plain text")
    with pytest.raises(InputError, match=f"a.{form} is a truncated or damaged archive"):
        read_text(path)


def test_errors_are_one_sentence(tmp_path):
    with pytest.raises(InputError) as caught:
        read_text(tmp_path / "no.txt")
    assert "\n" not in str(caught.value)
    assert str(caught.value).endswith(".")
