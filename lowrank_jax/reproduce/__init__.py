"""One table or figure of a paper, with the paper's numbers beside ours.

An experiment is a module with ``run(scale, data_dir, say) -> dict`` and
``plot(result, path)``. It may take ``keep``, which is given the result so far, and may
have ``table(result) -> str`` (Markdown). Its result is plain JSON; tables in the
documentation are made from these files, so that no figure is typed by hand.
"""

from typing import NamedTuple

__all__ = ["EXPERIMENTS", "Experiment"]


class Experiment(NamedTuple):
    """What `reproduce --list` tells of an experiment.

    Attributes:
      module: that runs it.
      title: the table or figure, in words.
      data: what it runs on, and for what that stands in.
    """

    module: str
    title: str
    data: str


#: By the name that `reproduce` takes.
EXPERIMENTS = {
    "bol-table1": Experiment(
        "lowrank_jax.reproduce.bol_table1",
        "BOL Table 1: Chinese word segmentation, word F1",
        "PFR 1998-01 to train (stand-in for SIGHAN-2005 pku), PKU test",
    ),
    "bol-fig3": Experiment(
        "lowrank_jax.reproduce.bol_fig3",
        "BOL Figure 3: chunking, F1 against the share of training data",
        "CoNLL-2000, the paper's own data",
    ),
    "bol-regret": Experiment(
        "lowrank_jax.reproduce.bol_regret",
        "BOL Propositions 3 to 5: regret, its certificate and its bounds by rounds",
        "dense matrices drawn here; CoNLL-2000, the paper's own data",
    ),
    "sblr-table1": Experiment(
        "lowrank_jax.reproduce.sblr_table1",
        "SBLR Table 1: seconds of Algorithms 1 and 2 on growing matrices",
        "drawn as in the paper",
    ),
    "sblr-fig3": Experiment(
        "lowrank_jax.reproduce.sblr_fig3",
        "SBLR Figure 3: convergence against the true limit, and its predicted rate",
        "BCI Competition II data set IV (stand-in for BCI III data set IVb)",
    ),
    "sblr-table2": Experiment(
        "lowrank_jax.reproduce.sblr_table2",
        "SBLR Table 2: EEG trials of two classes, accuracy and AUC",
        "BCI Competition II data set IV (stand-in for BCI III data set IVb)",
    ),
    "sblr-table4": Experiment(
        "lowrank_jax.reproduce.sblr_table4",
        "SBLR Table 4: objects from sides not trained on, and digits; many classes",
        "COIL-20 (stand-in for ALOI), scikit-learn's digits",
    ),
    "tm-table1": Experiment(
        "lowrank_jax.reproduce.tm_table1",
        "TM grid: reranking with few examples, order, components, mapping, four sizes",
        "50-best chunkings of CoNLL-2000 (stand-in for 50-best parses of the WSJ)",
    ),
    "tm-fig3": Experiment(
        "lowrank_jax.reproduce.tm_fig3",
        "TM Figure 3: training and held-out score after each pass",
        "50-best chunkings of CoNLL-2000 (stand-in for 50-best parses of the WSJ)",
    ),
    "tm-fig4": Experiment(
        "lowrank_jax.reproduce.tm_fig4",
        "TM Figure 4: singular values of the mapped surrogate",
        "50-best chunkings of CoNLL-2000 (stand-in for 50-best parses of the WSJ)",
    ),
    "smm-fig1": Experiment(
        "lowrank_jax.reproduce.smm_fig1",
        "SMM Figure 1: letters to phonemes, accuracy against the number of words",
        "NETtalk, the paper's own data",
    ),
    "smm-fig2": Experiment(
        "lowrank_jax.reproduce.smm_fig2",
        "SMM Figure 2: the path of the regulariser's strength at 2,000 words",
        "NETtalk, the paper's own data",
    ),
}
