import json

from lowrank_jax.data import DATASETS


def test_missing_data_sets_are_listed_with_where_to_get_them(cli, tmp_path):
    done = cli("datasets", "--data-dir", tmp_path)
    assert done.status == 0
    for name, dataset in DATASETS.items():
        assert f"\n{name}: " in done.out
        for word in (*dataset.terms.split(), *dataset.origin.split()):
            assert word in done.out
    assert "yes" not in done.out.split()


def test_a_wrong_file_is_told(cli, tmp_path):
    (tmp_path / "conll2000").mkdir()
    (tmp_path / "conll2000" / "train.txt").write_text("the DT B-NP\n")
    done = cli("datasets", "--data-dir", tmp_path)
    assert done.status == 0
    (row,) = (line for line in done.out.split("\n") if line.startswith("  train.txt"))
    assert row.split() == ["train.txt", "yes", "WRONG", "WRONG"]
    assert "where 8936 are expected" in " ".join(done.out.split())


def test_the_list_is_also_json(cli, tmp_path):
    done = cli("datasets", "--data-dir", tmp_path, "--json", "-")
    found = json.loads(done.out)
    assert found["folders"] == [str(tmp_path)]
    assert [entry["name"] for entry in found["datasets"]] == list(DATASETS)
    for entry in found["datasets"]:
        assert entry["terms"] and entry["origin"] and entry["citation"]
        for file in entry["files"]:
            assert file["present"] is False and file["checksum_ok"] is None


def test_a_corpus_that_is_here_is_verified(cli, corpus_path, tmp_path):
    source = corpus_path("conll2000/test.txt.xz")
    (tmp_path / "conll2000").mkdir()
    (tmp_path / "conll2000" / source.name).write_bytes(source.read_bytes())
    done = cli("datasets", "--data-dir", tmp_path)
    (row,) = (line for line in done.out.split("\n") if line.startswith("  test.txt"))
    assert row.split() == ["test.txt", "yes", "ok", "ok"]
