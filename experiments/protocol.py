"""One table or figure of a paper, with the paper's numbers beside ours.

An experiment is a module with ``run(scale, data_dir, say) -> dict`` and
``plot(result, path)``. It may take ``keep``, which is given the result so far, and may
have ``table(result) -> str`` (Markdown). Its result is plain JSON; tables in the
documentation are made from these files, so that no figure is typed by hand.
"""

from typing import Literal, NamedTuple

__all__ = ["EXPERIMENTS", "NOT_RUN", "Experiment", "NotRun"]

Status = Literal["the paper's data", "a stand-in", "data made as in the paper"]


class Experiment(NamedTuple):
    """What `reproduce --list` tells of an experiment.

    Attributes:
      module: that runs it.
      title: the table or figure, in words.
      status: on what it is reproduced.
      data: these data, and for what they stand in.
    """

    module: str
    title: str
    status: Status
    data: str


class NotRun(NamedTuple):
    """A table or figure that is not reproduced, and why."""

    title: str
    why: str


#: By the name that `reproduce` takes.
EXPERIMENTS = {
    "bol-table1": Experiment(
        "experiments.bol.table1",
        "BOL Table 1 (pku) and Figure 2: word segmentation, F1, mistakes by pass",
        "a stand-in",
        "PFR 1998-01 to train (stand-in for SIGHAN-2005 pku), PKU test",
    ),
    "bol-fig1": Experiment(
        "experiments.bol.fig1",
        "BOL Figure 1 (pku): word F1 against the share of training data",
        "a stand-in",
        "shares of PFR 1998-01 (stand-in for SIGHAN-2005 pku), PKU test",
    ),
    "bol-fig3": Experiment(
        "experiments.bol.fig3",
        "BOL Figure 3: chunking, F1 against the share of training data",
        "the paper's data",
        "CoNLL-2000",
    ),
    "bol-regret": Experiment(
        "experiments.bol.regret",
        "BOL Propositions 3 to 5: regret, its certificate and its bounds by rounds",
        "the paper's data",
        "CoNLL-2000, and dense matrices drawn here",
    ),
    "sblr-table1": Experiment(
        "experiments.sblr.table1",
        "SBLR Table 1: seconds of Algorithms 1 and 2 on growing matrices",
        "data made as in the paper",
        "two classes of normal matrices, 50 x 50 to 1000 x 1000",
    ),
    "sblr-fig3": Experiment(
        "experiments.sblr.fig3",
        "SBLR Figure 3: convergence against the true limit, and its predicted rate",
        "a stand-in",
        "BCI Competition II data set IV (stand-in for BCI III data set IVb)",
    ),
    "sblr-table2": Experiment(
        "experiments.sblr.table2",
        "SBLR Table 2: EEG trials of two classes, accuracy and AUC",
        "a stand-in",
        "BCI Competition II data set IV (stand-in for BCI III data set IVb)",
    ),
    "sblr-table4": Experiment(
        "experiments.sblr.table4",
        "SBLR Table 4: objects from sides not trained on, and digits; many classes",
        "a stand-in",
        "COIL-20 (stand-in for ALOI), scikit-learn's digits",
    ),
    "tm-table1": Experiment(
        "experiments.tm.table1",
        "TM grid: reranking with few examples, order, components, mapping, four sizes",
        "a stand-in",
        "50-best chunkings of CoNLL-2000 (stand-in for 50-best parses of the WSJ)",
    ),
    "tm-fig3": Experiment(
        "experiments.tm.fig3",
        "TM Figure 3: training and held-out score after each pass",
        "a stand-in",
        "50-best chunkings of CoNLL-2000 (stand-in for 50-best parses of the WSJ)",
    ),
    "tm-fig4": Experiment(
        "experiments.tm.fig4",
        "TM Figure 4: singular values of the mapped surrogate",
        "a stand-in",
        "50-best chunkings of CoNLL-2000 (stand-in for 50-best parses of the WSJ)",
    ),
    "smm-fig1": Experiment(
        "experiments.smm.fig1",
        "SMM Figure 1: letters to phonemes, accuracy against the number of words",
        "the paper's data",
        "NETtalk",
    ),
    "smm-fig2": Experiment(
        "experiments.smm.fig2",
        "SMM Figure 2: the path of the regulariser's strength at 2,000 words",
        "the paper's data",
        "NETtalk",
    ),
    "smm-operators": Experiment(
        "experiments.smm.operators",
        "SMM Theorem 1 in use: accuracy against the states of a recovered automaton",
        "the paper's data",
        "NETtalk",
    ),
}

#: What the papers show beside that.
NOT_RUN = (
    NotRun(
        "BOL Table 1 and Figure 1, columns msr, cityu, as",
        "the training files of SIGHAN-2005 are not obtainable; of msr a normalised "
        "tenth is, which does not match its own test",
    ),
    NotRun("SBLR Figures 1 and 2", "drawings of the models, no data"),
    NotRun(
        "SBLR Table 3: EEG of three image categories",
        "the authors' own recordings, not at hand; `fit --cv` takes many classes",
    ),
    NotRun("SBLR Figure 4: sample images of ALOI", "pictures of the data, no result"),
    NotRun(
        "SBLR Table 5 and Figure 5: UCF sports videos",
        "videos and SIFT features are not at hand; `fit` takes such matrices",
    ),
    NotRun(
        "TM Figures 1 and 2: a tensor, and the mapping as an algorithm",
        "no data; the mapping is features/mapping.py",
    ),
)
