"""``ragassay compare`` on stored datasets, as on files."""

import json

import pytest

import ragassay


@pytest.fixture
def versions(cli, tmp_path):
    """Two versions of one dataset: in the first every answer is right, in the second none is."""
    found = []
    for answer in ("At 02:00.", "Never."):
        path = tmp_path / "nightly.jsonl"
        rows = [
            {"query_id": f"q{n}", "query": f"When {n}?", "answer": answer, "ground_truth": "At 02:00."}
            for n in range(8)
        ]
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        code, out, err = cli("data", "import", path, "--name", "nightly", "--json")
        assert code == 0, err
        found.append(json.loads(out)[0]["digest"][:8])
        path.unlink()
    return found


def test_two_versions_of_a_dataset_are_compared_under_the_names_they_were_given(cli, versions):
    first, second = versions
    code, out, err = cli("compare", f"nightly@{first}", "nightly", "--metrics", "token_f1", "--json")
    assert code == 0, err
    comparison = json.loads(out)
    assert list(comparison["sides"]) == [f"nightly@{first}", "nightly"]
    assert comparison["pairs"][0]["metrics"]["token_f1"]["delta"] == -1.0
    of_python = ragassay.compare(f"nightly@{first}", f"nightly@{second}", metrics="token_f1")
    assert list(of_python.sides) == [f"nightly@{first}", f"nightly@{second}"]
    assert of_python.pairs[0].metrics["token_f1"].delta == -1.0
