"""``lowrank-jax train``: from a labelled file to a model folder."""

import argparse
from typing import Any

from lowrank_jax.cli import files, options
from lowrank_jax.cli.fitting import System, fit_command
from lowrank_jax.estimators.learners import FORMATS, LEARNERS

__all__ = ["add_parser", "run"]
__dir__ = __all__.copy

_LIST = "\n".join(f"  {name:<6} {spec.title}" for name, spec in LEARNERS.items())

_DESCRIPTION = f"""\
Train a sequence tagger and write it as a model folder.

learners (lowrank-jax train LEARNER --help lists the settings of one):
{_LIST}
"""

_EPILOG = """\
formats:
  conll         columns separated by blanks, the label last, an empty line after each
                sentence; F1 counts chunks as conlleval does
  conllu        CoNLL-U; words alone are read, and --label-column is the label
  segmentation  words separated by blanks, one sentence per line; F1 counts words
  nettalk       the NETtalk file; F1 is the share of letters that are right

examples:
  lowrank-jax train bol --train conll2000/train.txt --test conll2000/test.txt \\
      --passes 10 --model chunker --json result.json
  lowrank-jax train bol --train train.txt --set variant=paper --model paper
  lowrank-jax train sp --train pku.txt --format segmentation --orders first --model sp
  lowrank-jax train bol --train train.txt --passes 20 --model chunker --resume
  lowrank-jax train bol --train train.txt --batch-size 64 --devices 2 --model chunker
  lowrank-jax train smm --train nettalk/nettalk.data --format nettalk \\
      --fraction 0.1 --set strength=10 step_size=0.3 unfolding=both --model speller
"""


def _describe(parsed: argparse.Namespace) -> str:
    name = getattr(parsed, "learner", "")
    if name not in LEARNERS:
        return ""
    return options.describe_learner(name, LEARNERS[name])


def add_parser(commands: Any) -> None:
    """Add the parser of this command."""
    parser = commands.add_parser(
        "train",
        help="train a sequence tagger",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        add_help=False,
    )
    add = parser.add_argument
    add(
        "learner",
        metavar="LEARNER",
        choices=tuple(LEARNERS),
        help=f"one of {', '.join(LEARNERS)}",
    )
    add("--train", metavar="FILE", required=True, help="training data")
    add("--test", metavar="FILE", help="data to score the model on")
    add(
        "--dev",
        metavar="FILE",
        help="held-out data, scored after each pass; the best pass is kept",
    )
    add(
        "--patience",
        metavar="N",
        type=options.count,
        help="end after N passes without a better score on --dev",
    )
    add(
        "--calibrate",
        metavar="FOLDS",
        type=options.count,
        nargs="?",
        const=4,
        default=0,
        help="fit the probabilities of tag --marginals on so many folds of the "
        "training data, 4 by default; each fold trains once more; with --dev they are "
        "fitted on the held-out data without being asked for",
    )
    add(
        "--from",
        metavar="DIR",
        dest="start",
        help="go on from the weights of this model (sp, mira), on new data; features "
        "that are new get weights of their own",
    )
    add("--model", metavar="DIR", required=True, help="folder to write the model to")
    add(
        "--format",
        choices=tuple(FORMATS),
        default="conll",
        help="format of the data; default: conll",
    )
    files.add_label_column(parser)
    add(
        "--labels",
        choices=("iob1", "iob2", "iobes"),
        help="scheme of chunks that the model learns; the training data may be in any "
        "of the three, and tag writes labels in the scheme of the training data",
    )
    add(
        "--legal-only",
        action="store_true",
        help="never predict labels that the scheme of chunks does not allow, such as "
        "O before I-NP in IOB2; training stays as it is",
    )
    add(
        "--unknown-label",
        metavar="TEXT",
        default="?",
        help="label of tokens whose label is not known; training treats it as latent "
        "(default: ?; an empty text means that all labels are known)",
    )
    add(
        "--template",
        metavar="FILE",
        help="feature template in CRF++ form, or the name of a shipped template; "
        "default: the shipped template of the format, or words for words alone",
    )
    add(
        "--orders",
        choices=("template", "zero", "first", "both", "auto"),
        help="which templates have weights on the label (zero), on pairs of labels "
        "(first) or on both, whatever the file says; auto gives all of them weights on "
        "the label, and chooses on held-out training sentences which have weights on "
        "pairs beside; default: both for bilinear learners, else template",
    )
    add(
        "--min-count",
        metavar="N",
        type=options.count,
        default=1,
        help="drop features that occur less often in the training data",
    )
    add(
        "--passes",
        metavar="N",
        type=options.count,
        help="number of passes over the training data; for crf and smm the largest "
        "number of iterations; default: 10, crf 100, smm 200",
    )
    options.add_wide(
        parser,
        "sentences",
        "; for bol, sp and mira. On two cores bol with 64 gains a little; sp and mira "
        "lose, and sp needs more passes for the same F1",
    )
    options.add_seed(
        parser, "seed of the order of sentences and of all else that is random"
    )
    add(
        "--fraction",
        metavar="X",
        type=options.share,
        default=1.0,
        help="share of the training sentences to use, above 0 and up to 1",
    )
    options.add_settings(parser, "settings of the learner")
    add(
        "--unseen-label",
        choices=("known-type", "error", "ignore"),
        default="ignore",
        help="what to do about a label of the test data that training never saw: "
        "count it as an error of the model (ignore, the default), stop (error), or "
        "stop unless its prefix and its type were seen apart, such as I-LST of "
        "CoNLL-2000 (known-type)",
    )
    options.add_checkpoints(parser)
    add(
        "--certify",
        metavar="U",
        nargs="?",
        const="average",
        help="certify the regret of this run (DR-B4; learners bol and sp) against a "
        "fixed model: average (the model of this run, the default), hindsight (its "
        "best multiple after the fact), or the folder of another model on the same "
        "features; kept in certificate.json of the model folder",
    )
    add(
        "--certify-every",
        metavar="N",
        type=options.count,
        help="also log the exact spectrum of the dual (sigma_2/sigma_1 of all blocks) "
        "after every N rounds of a pass, and at its end",
    )
    add("--json", metavar="FILE", help="write the results there; - prints them")
    files.add_data_dir(parser)
    words = "show this help; after LEARNER its settings instead"
    options.add_help(parser, _describe, words)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Train, save, score; return the exit status."""
    from lowrank_jax.cli.systems.sentences import Sentences

    system: System = Sentences(arguments)
    if LEARNERS[arguments.learner].data == "words":
        from lowrank_jax.cli.systems.words import Words

        system = Words(arguments)
    return fit_command(arguments, system)
