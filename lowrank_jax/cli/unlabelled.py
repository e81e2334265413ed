"""Text without labels: what ``tag`` and ``show`` read."""

from typing import TYPE_CHECKING, Any

from lowrank_jax.checks import InputError

if TYPE_CHECKING:
    from lowrank_jax.data.corpus import Corpus
    from lowrank_jax.estimators.tagger import Tagger

__all__ = ["read", "read_format"]
__dir__ = __all__.copy


def read(path: str, tagger: "Tagger", name: str) -> tuple["Corpus", list[bool]]:
    """Read text for a tagger; also tell which lines have a sentence.

    Args:
      path: File to read.
      tagger: Tagger that will label it.
      name: Name of its folder, for a message.
    """
    if tagger.encoder_.template is None:
        raise InputError(
            f"{name} was trained on features given in Python, and a file has none; "
            "use Tagger.load and predict."
        )
    corpus, sentence_of_line = read_format(path, tagger.format)
    tagger.encoder_.template.check_columns(len(corpus.columns), corpus.source)
    return corpus, sentence_of_line


def read_format(path: str, file_format: str) -> tuple["Corpus", list[bool]]:
    """Read text without labels; also tell which lines have a sentence."""
    import numpy as np

    from lowrank_jax import data
    from lowrank_jax.data.corpus import Corpus
    from lowrank_jax.data.files import as_characters, code_points, source_name

    if file_format == "conll":
        return data.read_conll(path, has_labels=False), []
    if file_format == "conllu":
        return data.read_conllu(path, has_labels=False), []
    lines = data.read_text(path).removesuffix("\n").split("\n")
    if file_format == "nettalk":
        lines = _letters_of(lines)
    lines = ["".join(line.split()) for line in lines]
    filled = [line for line in lines if line]
    if not filled:
        raise InputError(
            f"{source_name(path)} holds no text; check that it is the right file."
        )
    characters = as_characters(code_points("".join(filled)))
    offsets = np.cumsum([0, *map(len, filled)])
    columns: tuple[Any, ...] = (characters,)
    if file_format == "segmentation":
        columns += data.character_columns(characters)
    corpus = Corpus(columns, None, offsets, source_name(path))
    return corpus, [bool(line) for line in lines]


def _letters_of(lines: list[str]) -> list[str]:
    """Take the letters alone if the lines come from a NETtalk file."""
    if not any(line.count("\t") >= 2 for line in lines):
        return lines
    # A line of the header has no fields, or an empty one first.
    return [line.split("\t")[0] for line in lines if line.count("\t") >= 2]
