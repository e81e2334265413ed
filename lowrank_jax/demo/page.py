"""The page of ``lowrank-jax demo``: one section per system, then the theory."""

from collections.abc import Sequence

from lowrank_jax.demo import bol, bol_section, sblr, smm, tm
from lowrank_jax.report import page as report
from lowrank_jax.verify import Result
from lowrank_jax.verify.curves import Curves
from lowrank_jax.verify.page import pictures, statements_table

__all__ = ["page"]
__dir__ = __all__.copy


def page(
    sequences: bol.Demo,
    matrices: sblr.Demo,
    words: smm.Demo,
    lists: tm.Demo,
    results: Sequence[Result],
    curves: Curves,
    seconds: float,
) -> str:
    """Return the page.

    Args:
      sequences: Result of `bol.run`.
      matrices: Result of `sblr.run`.
      words: Result of `smm.run`.
      lists: Result of `tm.run`.
      results: Results of the statements.
      curves: Result of `verify.curves.compute`.
      seconds: Time of the whole demo.
    """
    num_trials = sum(result.trials for result in results)
    num_failing = sum(result.status == "printed-form-fails" for result in results)
    body = [
        "<p>Four systems learn weights of low rank: for sequences, matrices, words and "
        "lists. Here each of them is trained in small beside what it is usually "
        "compared with, and the theory behind them is put to the test.</p>",
        *bol_section.section(sequences),
        *sblr.section(matrices),
        *smm.section(words),
        *tm.section(lists),
        *pictures(curves),
        "<h2>The statements, one by one</h2>",
        f"<p>{num_trials:,} trials of {len(results)} statements, in double precision; "
        f"{num_failing} of them as a paper prints them, where that is wrong.</p>",
        statements_table(results),
        "<h2>On real data</h2>",
        "<pre>lowrank-jax datasets\n"
        "lowrank-jax train bol --train conll2000/train.txt \\\n"
        "    --test conll2000/test.txt --model chunker\n"
        "lowrank-jax tag chunker new.txt\n"
        "lowrank-jax fit bci2_iv/sp1s_aa_100hz.npz --cv 5 --model eeg-model\n"
        "lowrank-jax verify --html statements.html</pre>",
        f'<p class="small">Made by lowrank-jax demo in {seconds:.0f} s.</p>',
    ]
    return report.page("Low-rank learning, in small", body)
