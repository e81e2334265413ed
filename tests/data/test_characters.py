"""Code points, white space and classes of characters."""

import numpy as np
import pytest

from lowrank_jax.data import CHARACTER_CLASSES, character_classes
from lowrank_jax.data.files import as_characters, code_points, is_space


def test_code_points_and_characters_are_inverse():
    text = "a世\U0001f600\u3000"
    codes = code_points(text)
    assert codes.tolist() == [ord(c) for c in text]
    assert codes.dtype == np.uint32
    assert "".join(as_characters(codes)) == text
    assert as_characters(codes).dtype == np.dtype("U1")


def test_is_space_agrees_with_python_on_every_code_point():
    codes = np.arange(0x110000, dtype=np.uint32)
    expected = [chr(code).isspace() for code in codes.tolist()]
    assert is_space(codes).tolist() == expected


@pytest.mark.parametrize(
    ("characters", "expected"),
    [
        ("0９①", "D"),
        ("aＺé", "L"),
        ("一〇○零万年月日", "N"),
        (",，。《》（%％…—$", "P"),
        ("世纪ア한аΩ", "O"),
    ],
)
def test_classes_worked_by_hand(characters, expected):
    assert set(character_classes(list(characters))) == {expected}
    assert expected in CHARACTER_CLASSES


def test_full_width_forms_have_the_class_of_half_width_ones():
    half = [chr(code) for code in range(0x21, 0x7F)]
    full = [chr(code + 0xFEE0) for code in range(0x21, 0x7F)]
    assert character_classes(full).tolist() == character_classes(half).tolist()


def test_classes_of_nothing_and_of_long_tokens():
    assert character_classes([]).shape == (0,)
    assert character_classes(np.array(["7x", "x7"], object)).tolist() == ["D", "L"]
