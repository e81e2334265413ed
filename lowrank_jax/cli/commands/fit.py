"""``lowrank-jax fit``: from labelled matrices to a classifier and pictures of it."""

import argparse
from typing import Any

from lowrank_jax.cli import files, matrices, options
from lowrank_jax.cli.fitting import fit_command

__all__ = ["add_parser", "run"]
__dir__ = __all__.copy

_DESCRIPTION = """\
Fit a sparse bilinear logistic regression to matrices, such as EEG trials (channels x
times) or images, and write it as a model folder with pictures of its weights.

DATA.npz holds x (n, s, t) and y (n,), or x_train, y_train, x_test, y_test: then the
training part is fitted and the test part scored. Row names in `channels` or `names` are
shown in the pictures. The matrices are scaled first (--set scale), so that the
strengths mu1, mu2, nu1, nu2 do not depend on the unit.
"""

_EPILOG = """\
examples:
  lowrank-jax fit bci2_iv/sp1s_aa_100hz.npz --model eeg-model --json result.json
  lowrank-jax fit trials.npz --cv 5 --model eeg-model
  lowrank-jax fit trials.npz --rank 2 --set mu1=0.002 nu2=0.03 --split 0.25 --model m
  lowrank-jax fit coil20/coil20_32x32.npz --split 0.3 --images --model objects \\
      --set multi_class=one-vs-all
"""


def add_parser(commands: Any) -> None:
    """Add the parser of this command."""
    parser = commands.add_parser(
        "fit",
        help="fit a classifier of matrices",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        add_help=False,
    )
    add = parser.add_argument
    add("data", metavar="DATA.npz", help="labelled matrices")
    add("--model", metavar="DIR", required=True, help="folder to write the model to")
    add(
        "--rank",
        metavar="R",
        type=options.count,
        help="rank of the weights; default: 1, with --cv chosen",
    )
    options.add_settings(parser, "strengths and the like, listed below")
    add(
        "--cv",
        metavar="K",
        type=options.count,
        help="choose rank and strengths by K-fold cross-validation; values of --rank "
        "and --set stay",
    )
    add(
        "--grid",
        choices=("small", "paper"),
        help="points that --cv tries: 24, the default, or 900 as the paper does, with "
        "the paper's solver and tolerance",
    )
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--test", metavar="DATA.npz", help="data to score the model on")
    where.add_argument(
        "--split",
        metavar="X",
        type=options.share,
        help="share of each class to hold out and to score the model on, below 1",
    )
    options.add_seed(
        parser, "seed of --split and of the folds; the fit itself is not random"
    )
    add(
        "--images",
        action="store_true",
        help="rows and columns are both places: draw weights as images",
    )
    add("--no-plots", action="store_true", help="draw no pictures")
    add("--json", metavar="FILE", help="write the results there; - prints them")
    matrices.add_keys(parser)
    files.add_data_dir(parser)
    options.add_help(parser, _describe)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Fit, score, save; return the exit status."""
    from lowrank_jax.cli.systems.matrices import LabelledMatrices

    return fit_command(arguments, LabelledMatrices(arguments))


def _describe(_: argparse.Namespace) -> str:
    from lowrank_jax.cli.systems import matrices as system

    return system.describe()
