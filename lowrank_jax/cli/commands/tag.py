"""``lowrank-jax tag``: label new text with a model."""

import argparse
import sys
from collections.abc import Iterable, Iterator
from typing import IO, TYPE_CHECKING, Any

from lowrank_jax.checks import InputError
from lowrank_jax.cli import files, options, output, unlabelled

if TYPE_CHECKING:
    from lowrank_jax.data.corpus import Corpus
    from lowrank_jax.estimators.tagger import Tagger

__all__ = ["add_parser", "run"]
__dir__ = __all__.copy

_DESCRIPTION = """\
Label text with a model that `train` wrote, and print the result.

The input depends on the format that the model was trained on:
  conll         columns as in the training file, with or without the label. The output
                has the same columns and one more, the predicted label.
  conllu        CoNLL-U. The output is the input with the label column filled in.
  segmentation  text, one sentence per line. The output has two spaces between words.
  nettalk       words, one per line, or a NETtalk file. The output has two columns,
                letter and phoneme.
"""

_EPILOG = """\
Probabilities of --marginals are the softmax of the model's scores over all labellings
of a sentence. Models trained by likelihood (crf) are calibrated. Perceptron and
max-margin models (sp, mira, bol, ...) are calibrated if they were trained with --dev or
--calibrate.

Best labels of up to some ten thousand tokens, and the K best of some hundred sentences
or fewer, are found without compiling. Compiled programs are kept in the user's cache
folder (lowrank-jax --no-cache tag ... does not).

examples:
  lowrank-jax tag chunker new.txt > tagged.txt
  cat new.txt | lowrank-jax tag chunker --k-best 3
  lowrank-jax tag segmenter text.txt
"""


def add_parser(commands: Any) -> None:
    """Add the parser of this command."""
    parser = commands.add_parser(
        "tag",
        help="label text with a model",
        description=_DESCRIPTION,
        epilog=_EPILOG,
    )
    add = parser.add_argument
    add("model", metavar="DIR", help="the model folder")
    add("file", metavar="FILE", nargs="?", default="-", help="default: standard input")
    which = parser.add_mutually_exclusive_group()
    which.add_argument(
        "--k-best",
        metavar="K",
        type=options.count,
        help="print the K best labellings of each sentence, each below a line "
        "'# NUMBER SCORE' that counts from 0",
    )
    which.add_argument(
        "--marginals",
        action="store_true",
        help="print columns, and after the predicted label one more column, "
        "LABEL/PROBABILITY, for each label of the model (in the scheme of train "
        "--labels)",
    )
    files.add_data_dir(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Label a file; return the exit status."""
    path = files.find_data(arguments.file, arguments.data_dir)

    from lowrank_jax.estimators.tagger import Tagger
    from lowrank_jax.store.folder import kind_of

    if kind_of(arguments.model) == "word tagger":
        return _tag_words(arguments, path)
    tagger = Tagger.load(arguments.model)
    if tagger.format == "conllu" and not (arguments.k_best or arguments.marginals):
        return _tag_conllu(tagger, path)
    corpus, sentence_of_line = unlabelled.read(path, tagger, arguments.model)
    if arguments.k_best is not None:
        _write_k_best(sys.stdout, tagger, corpus, arguments.k_best)
    elif arguments.marginals:
        _write_marginals(sys.stdout, tagger, corpus)
    elif tagger.format == "segmentation":
        _write_words(sys.stdout, tagger, corpus, sentence_of_line)
    else:
        from lowrank_jax.data import write_conll

        write_conll(
            sys.stdout, _without_classes(tagger, corpus), [tagger.predict(corpus)]
        )
    return 0


def _tag_conllu(tagger: "Tagger", path: str) -> int:
    """Fill in the label column of a CoNLL-U file; all else stays as it is."""
    from lowrank_jax.data import conllu
    from lowrank_jax.data.files import read_text, source_name

    text = read_text(path)
    labels = tagger.predict(conllu.corpus_of_text(text, source_name(path), None))
    column = tagger.training_.get("label_column", "upos")
    conllu.write_conllu(sys.stdout, text, labels, label_column=column)
    return 0


def _tag_words(arguments: argparse.Namespace, path: str) -> int:
    """Label the letters of words with a model of bi-symbols."""
    from lowrank_jax.data import write_conll
    from lowrank_jax.estimators.speller import Speller

    for option, is_given in (
        ("--k-best", arguments.k_best is not None),
        ("--marginals", arguments.marginals),
    ):
        if is_given:
            raise InputError(
                f"{option} needs a tagger, and {arguments.model} is a speller, which "
                f"gives its best labels alone; leave it out."
            )
    tagger = Speller.load(arguments.model)
    corpus, _ = unlabelled.read_format(path, "nettalk")
    unseen = tagger.unseen_letters(corpus)
    if unseen:
        output.note(
            f"the training data do not have the letter{'s' if len(unseen) > 1 else ''} "
            f"{', '.join(unseen)} of {corpus.source}; such letters get the most "
            f"frequent label."
        )
    write_conll(sys.stdout, corpus, [tagger.predict(corpus)])
    return 0


def _write_words(
    stream: IO[str], tagger: "Tagger", corpus: "Corpus", has_sentence: Iterable[bool]
) -> None:
    """Write segmented text, an empty line where the input has one."""
    sentences = _words(corpus, tagger.predict(corpus))
    for is_filled in has_sentence:
        stream.write(("  ".join(next(sentences)) if is_filled else "") + "\n")


def _words(corpus: "Corpus", labels: Any) -> Iterator[list[str]]:
    from lowrank_jax.data import words_from_labels

    return iter(words_from_labels(corpus.columns[0], labels, corpus.offsets))


def _write_k_best(stream: IO[str], tagger: "Tagger", corpus: "Corpus", k: int) -> None:
    from lowrank_jax.data import write_conll

    shown = _without_classes(tagger, corpus)
    for i, labellings in enumerate(tagger.k_best(corpus, k)):
        sentence = shown.take([i])
        for rank, found in enumerate(labellings):
            stream.write(f"# {rank} {found.score:.6g}\n")
            if tagger.format == "segmentation":
                (words,) = _words(sentence, found.labels)
                stream.write("  ".join(words) + "\n")
            else:
                write_conll(stream, sentence, [found.labels])


def _write_marginals(stream: IO[str], tagger: "Tagger", corpus: "Corpus") -> None:
    from lowrank_jax.data import write_conll

    columns: list[Any] = [tagger.predict(corpus)]
    probabilities = tagger.predict_marginals(corpus).T.tolist()
    for label, column in zip(tagger.encoder_.labels, probabilities, strict=True):
        columns.append([f"{label}/{value:.6g}" for value in column])
    write_conll(stream, _without_classes(tagger, corpus), columns)


def _without_classes(tagger: "Tagger", corpus: "Corpus") -> "Corpus":
    """Drop the column that reading segmented text has added."""
    import dataclasses

    if tagger.format.startswith("conll"):
        return corpus
    return dataclasses.replace(corpus, columns=corpus.columns[:1])
