import pathlib

import pytest

from lowrank_jax.checks import InputError
from lowrank_jax.features import (
    Column,
    parse_template,
    read_template,
    shipped_templates,
    with_orders,
)

TEXT = """
# words
U00:%x[0,0]
  U05:%x[-1,0]/%x[0,0]

B05:%x[-1,0]/%x[0,0]
B7:%x[2,1]
U
B
"""


def test_letters_give_orders_and_equal_texts_join():
    template = parse_template(TEXT)
    assert template.columns == (
        Column(("00:", ""), ((0, 0),), "0"),
        Column(("05:", "/", ""), ((-1, 0), (0, 0)), "01"),
        Column(("7:", ""), ((2, 1),), "1"),
        Column(("",), (), "0"),
    )
    assert template.has_transitions
    assert template.orders == ("0", "01", "1", "0")
    assert [column.line for column in template.columns] == [3, 4, 7, 8]


def test_b_line_before_u_line_joins_too():
    template = parse_template("B1:%x[0,0]\nU1:%x[0,0]\n")
    assert template.orders == ("01",)
    assert not template.has_transitions


def test_repeated_line_is_a_second_column():
    text = "U1:%x[0,0]\nU1:%x[0,0]\nB1:%x[0,0]\n"
    assert parse_template(text).orders == ("01", "0")


@pytest.mark.parametrize("line", ["B", "B07", "B  "])
def test_b_without_macro_means_transitions(line):
    template = parse_template(f"U:%x[0,0]\n{line}\n")
    assert template.has_transitions
    assert len(template.columns) == 1


def test_percent_that_begins_no_macro_is_text():
    column = parse_template("U100% %%x[0,0]%").columns[0]
    assert column.literals == ("100% %", "%")
    assert column.text == "100% %%x[0,0]%"


def test_signs_and_line_ends_of_other_systems_are_read():
    template = parse_template("U0:%x[+1,0]\r\nB\r\n")
    assert template == parse_template("U0:%x[1,0]\nB")


def test_text_and_template_are_inverse():
    for text in (TEXT, "U1:%x[0,0]\nU1:%x[0,0]\nB1:%x[0,0]\nB", "B", "U9"):
        template = parse_template(text)
        again = parse_template(template.to_text())
        assert again == template
        assert hash(again) == hash(template)


def test_orders_are_overridden_as_said():
    template = parse_template("U0:%x[0,0]\nB1:%x[0,0]\nU2:%x[1,0]\nB2:%x[1,0]\n")
    assert with_orders(template, "template") is template
    zero = with_orders(template, "zero")
    assert (zero.orders, zero.has_transitions) == (("0",) * 3, True)
    first = with_orders(template, "first")
    assert (first.orders, first.has_transitions) == (("1",) * 3, False)
    both = with_orders(template, "both")
    assert (both.orders, both.has_transitions) == (("01",) * 3, False)
    kept = with_orders(parse_template("U0:%x[0,0]\nB"), "first")
    assert (kept.orders, kept.has_transitions) == (("1",), True)
    for changed in (zero, first, both, kept):
        assert parse_template(changed.to_text()) == changed


def test_first_order_form_of_a_constant_is_transitions():
    template = parse_template("U\nU0:%x[0,0]")
    first, both = with_orders(template, "first"), with_orders(template, "both")
    assert (first.orders, first.has_transitions) == (("1",), True)
    assert (both.orders, both.has_transitions) == (("0", "01"), True)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("U0:%x[0,0]\nX1:%x[0,0]", ["my.template, line 2", "'X1:%x[0,0]'", "U or B"]),
        ("U0:%x[0;0]", ["line 1", "malformed", "'%x[0;0]'"]),
        ("U0:%x[0,0", ["line 1", "malformed"]),
        ("U0:%x", ["malformed"]),
        ("U0:%x[a,0]", ["malformed"]),
        ('U0:%m[0,0,"x"]', ["malformed"]),
        ("\nB0:%x[0,-1]", ["line 2", "negative column", "'%x[0,-1]'"]),
        ("U0:%x[-101,0]", ["line 1", "-101 tokens away", "-100 and 100"]),
        ("U0:%x[99999999999999999999,0]", ["line 1", "tokens away"]),
        ("", ["my.template holds no template", "chunking"]),
        ("# only\n\n", ["holds no template"]),
    ],
)
def test_bad_lines_are_named(text, words):
    with pytest.raises(InputError) as error:
        parse_template(text, "my.template")
    for word in words:
        assert word in str(error.value)


def test_missing_column_names_line_and_number_of_columns():
    template = parse_template("U0:%x[0,0]\nU1:%x[0,0]/%x[1,2]", "my.template")
    template.check_columns(3, "data.txt")
    with pytest.raises(InputError, match=r"my.template, line 2: .*column 2.*2 columns"):
        template.check_columns(2, "data.txt")


def test_files_are_read_and_unreadable_ones_named(tmp_path, monkeypatch):
    path = tmp_path / "my.template"
    path.write_text("\ufeffU0:%x[0,0]\nB\n", encoding="utf-8")
    assert (
        read_template(path)
        == read_template(str(path))
        == parse_template("U0:%x[0,0]\nB")
    )
    assert read_template(path).source == str(path)
    with pytest.raises(InputError, match="absent.*chunking"):
        read_template(tmp_path / "absent")
    with pytest.raises(InputError, match="cannot be read"):
        read_template(tmp_path)
    path.write_bytes(b"U0:\xff%x[0,0]")
    with pytest.raises(InputError, match="my.template:1 is not utf-8 text"):
        read_template(path)
    monkeypatch.chdir(tmp_path)
    pathlib.Path("chunking").write_text("B")
    assert len(read_template("chunking").columns) == 19
    assert read_template("./chunking") == parse_template("B")


def test_shipped_templates_have_the_sizes_they_state():
    sizes = {name: len(read_template(name).columns) for name in shipped_templates()}
    assert sizes == {
        "chunking": 19,
        "chunking-affixes": 26,
        "chunking-wide": 69,
        "entities": 21,
        "nettalk": 18,
        "nettalk-trigram": 11,
        "segmentation": 9,
        "segmentation-classes": 25,
        "segmentation-classes-first": 25,
        "segmentation-first": 9,
        "segmentation-folded": 9,
        "words": 18,
    }
    for name in shipped_templates():
        template = read_template(name)
        if any(isinstance(c, str) for x in template.columns for _, c in x.macros):
            continue  # see test_columns
        expected = {"0", "1"} if name == "nettalk-trigram" else {"0"}
        assert template.has_transitions == (not name.endswith("-first"))
        assert set(template.orders) == ({"1"} if name.endswith("-first") else expected)
        assert len({column.literals for column in template.columns}) == sizes[name]
        columns = {c for column in template.columns for _, c in column.macros}
        expected = {
            "chunking": {0, 1},
            "segmentation-classes": {1, 2},
            "segmentation-classes-first": {1, 2},
            "segmentation-first": {2},
            "segmentation-folded": {2},
        }
        assert columns == expected.get(name, {0})
