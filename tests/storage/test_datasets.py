"""Datasets with versions, in a folder and in Redis: the same rows are one version, and what is stored comes back."""

import hashlib
import os
import time

import pytest

import job_workers
from ragassay.core.errors import BadData, BadInput, BadSettings, Conflict, NotFound, NothingToEvaluate, UnknownName
from ragassay.core.models import Response, Sample
from ragassay.datasets import versions
from ragassay.datasets.versions import DatasetStore, Lineage, Origin, file_or_version, resolve
from ragassay.service.redis import RedisStore

ROWS = [
    Sample(query_id="a", query="One?", relevance_scores={"d": 2.0}, metadata={"category": "not a column", "n": 0.1}),
    Sample(query_id="b", query="Zwei – 二?", doc_timestamps={"d": 5.0}, response=Response(answer="2", contexts=())),
    Sample(query_id="c", query="Three?", ground_truth_answer=("3", "three"), response=Response()),
]


server = job_workers.server


@pytest.fixture
def in_redis(server):
    store = RedisStore(server.url)
    store.redis.flushall()
    yield store.datasets
    store.redis.close()


@pytest.fixture
def in_folder(tmp_path):
    return DatasetStore.of_folder(tmp_path)


@pytest.fixture(params=["folder", "redis"])
def store(request, in_redis):
    """Every test of this fixture is about datasets in both places."""
    return request.getfixturevalue(f"in_{request.param}")


def origin(**options):
    return lambda: Origin(lineage=Lineage(action="import", **options))


def test_what_is_stored_comes_back(store):
    version = store.add("mine", iter(ROWS), origin(sources=("a.jsonl",)))
    assert list(store.samples(version)) == ROWS
    assert version.rows == 3
    assert store.versions("mine") == [version]
    assert store.versions("yours") == []


def test_versions_of_a_name_read_no_record_of_another(store, monkeypatch):
    version = store.add("mine", ROWS, origin())
    store.add("mine-too", ROWS, origin())
    listed = []
    names = store._blobs.names
    monkeypatch.setattr(store._blobs, "names", lambda folder: listed.extend(found := names(folder)) or found)
    assert store.versions("mine") == [version]
    assert listed == [f"versions/mine/{version.digest}.json"]


def test_both_stores_have_one_digest_for_the_same_rows_that_of_the_folder_s_file(in_folder, in_redis, tmp_path):
    version = in_folder.add("mine", ROWS, origin())
    assert version.digest == in_redis.add("mine", ROWS, origin()).digest == PINNED
    (block,) = tmp_path.glob(f"datasets/{versions.rows_folder(version)}/*.jsonl")
    assert hashlib.sha256(block.read_bytes()).hexdigest() == version.digest
    assert block.stat().st_mode & 0o077 == block.parent.stat().st_mode & 0o077 == 0


def test_files_that_a_file_manager_leaves_are_no_part_of_a_dataset(in_folder, tmp_path):
    version = in_folder.add("mine", ROWS, origin())
    (block,) = tmp_path.glob("datasets/mine@*/*.jsonl")
    for place in (tmp_path / "datasets/versions", tmp_path / "datasets/versions/mine", block.parent):
        (place / ".DS_Store").write_bytes(b"\0\0\0\1Bud1")
    (block.parent / f"._{block.name}").write_bytes(b"\0\5\x16\7")  # what macOS keeps beside a file on a shared drive
    (block.parent / f"{block.stem} (copy).jsonl").write_bytes(block.read_bytes())
    assert in_folder.names() == ["mine"]
    assert in_folder.versions("mine") == [version]
    assert list(in_folder.samples(version)) == ROWS


PINNED = "8cdb565db5cf2920d227eba39b584f6a78e60bbcfb44a92876d8524f158056b8"


def test_the_same_rows_are_the_same_version(store):
    first = store.add("mine", ROWS, origin(sources=("a.jsonl",)))
    again = store.add("mine", ROWS, origin(sources=("b.csv",)))
    other = store.add("yours", ROWS, origin())
    assert (again.digest, again.created_at, again.lineage) == (first.digest, first.created_at, first.lineage)
    assert other.digest == first.digest
    assert store.names() == ["mine", "yours"]
    assert len(store.versions("mine")) == 1


def test_a_name_alone_means_what_was_imported_last_and_a_version_knows_its_parent(store):
    first = store.add("mine", ROWS, lambda: Origin(lineage=Lineage(action="import"), description="ours"))
    second = store.add("mine", ROWS[:2], origin())
    assert second.lineage.parent == f"mine@{first.digest}"
    assert second.description == "ours"
    assert resolve(store, "mine") == second
    assert resolve(store, f"mine@{first.digest[:8].upper()}") == first
    store.add("mine", ROWS, origin())
    assert resolve(store, "mine").digest == first.digest
    assert resolve(store, "mine").lineage.parent is None


@pytest.mark.parametrize(
    ("text", "kind", "message"),
    [
        ("mone", UnknownName, "unknown dataset 'mone'; did you mean mine?"),
        ("mine@0", NotFound, "'mine' has no version '0'; known: "),
        ("a/b", BadInput, "is not of the form NAME or NAME@VERSION"),
    ],
)
def test_a_reference_that_is_none_gets_a_suggestion(store, text, kind, message):
    version = store.add("mine", ROWS, origin())
    assert not version.digest.startswith("0")
    with pytest.raises(kind) as error:
        resolve(store, text)
    assert message in str(error.value)


def test_a_beginning_that_two_versions_share_is_refused(store):
    versions = [store.add("mine", [Sample(query_id="a", query=str(n))], origin()) for n in range(17)]
    shared = next(v.digest[0] for v in versions if sum(o.digest[0] == v.digest[0] for o in versions) > 1)
    with pytest.raises(NotFound, match="is not unique"):
        resolve(store, f"mine@{shared}")


def test_a_file_comes_before_a_dataset_of_its_name(in_folder, tmp_path, monkeypatch):
    store = in_folder
    monkeypatch.chdir(tmp_path)
    store.add("mine", ROWS, origin())
    (tmp_path / "mine").mkdir()
    assert file_or_version(store, "mine") is not None  # a folder that holds no data is passed over
    (tmp_path / "mine").rmdir()
    (tmp_path / "mine").write_text("x")
    assert file_or_version(store, "mine") is None
    assert file_or_version(store, "missing.jsonl") is None  # the reader says so
    with pytest.raises(NotFound, match="neither such a file nor such a dataset; did you mean mine"):
        file_or_version(store, "mines")


@pytest.mark.parametrize("name", ["", "a b", "../x", "a.b", "-x", "x" * 101])
def test_a_name_that_is_none_is_refused(store, name):
    with pytest.raises(BadSettings, match=r"a dataset's name is letters, digits.*; choose another name$"):
        store.add(name, ROWS, origin())


def test_rows_that_break_off_leave_nothing(store, server, tmp_path, monkeypatch):
    def rows():
        yield from MANY
        raise BadData(["row 2 is bad"])

    monkeypatch.setattr(versions, "BLOCK", 200)
    with pytest.raises(BadData):
        store.add("mine", rows(), origin())
    with pytest.raises(NothingToEvaluate):
        store.add("mine", [], origin())
    assert store.names() == []
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []
    assert RedisStore(server.url).redis.keys("*") == []


def test_damage_is_noticed_and_mended_by_another_import(in_folder, tmp_path):
    store = in_folder
    version = store.add("mine", ROWS, origin())
    (file,) = tmp_path.glob("datasets/mine@*/*.jsonl")
    content = file.read_bytes()
    file.write_bytes(content.replace(b"One?", b"Two?"))
    with pytest.raises(BadData, match="not those that were stored"):
        list(store.samples(version))
    file.write_bytes(content.replace(b'"query":"One?"', b'"query":1'))
    with pytest.raises(BadData, match="row 1: query: should be text"):
        list(store.samples(version))
    store.add("mine", ROWS, origin())
    assert list(store.samples(version)) == ROWS
    record = next(tmp_path.glob("datasets/versions/mine/*.json"))
    for name, elsewhere in ((version.digest, "../../../elsewhere"), ('"name":"mine"', '"name":"../mine"')):
        kept = record.read_text()
        record.write_text(kept.replace(name, elsewhere))
        with pytest.raises(Conflict, match=r"(digest|name): ") as refused:
            store.versions("mine")
        assert str(refused.value).startswith(f"{record}: a record of dataset mine can't be read")
        record.write_text(kept)
    file.unlink()
    with pytest.raises(NotFound, match="the rows of mine@8cdb565db5cf are gone"):
        list(store.samples(version))


MANY = [Sample(query_id=f"q{n}", query=f"Question {n}? " + "x" * (n % 7)) for n in range(100)]


@pytest.mark.parametrize("block", [1, 200, 10**6])
def test_rows_are_read_page_by_page_wherever_blocks_end(store, monkeypatch, block):
    monkeypatch.setattr(versions, "BLOCK", block)
    version = store.add("many", MANY, origin())
    assert list(store.samples(version)) == MANY
    for first, limit in ((0, 100), (0, 1), (99, 5), (37, 30), (100, 5)):
        page = store.page(version, first, limit)
        assert [Sample.model_validate_json(line) for line in page] == MANY[first : first + limit]
    monkeypatch.setattr(versions, "LARGEST_PAGE", 200)
    assert len(store.page(version, 0, 100)) == 4  # 41 + 42 + 43 + 44 bytes; the fifth has 45
    monkeypatch.setattr(versions, "LARGEST_PAGE", 1)
    assert len(store.page(version, 0, 100)) == 1


def test_rows_go_with_their_version(store, server, tmp_path):
    first, second = store.add("mine", ROWS, origin()), store.add("mine", MANY, origin())
    other = store.add("yours", ROWS, origin())
    store.delete(first)
    assert (store.versions("mine"), list(store.samples(other))) == ([second], ROWS)
    assert [[version.name for version in one] for one in store.each()] == [["mine"], ["yours"]]
    assert [one[0].name for one in store.each(["yours"])] == ["yours"]
    store.delete(other)
    assert store.names() == ["mine"]
    with pytest.raises(NotFound, match="are gone"):
        store.delete(other)
    store.delete(second)
    assert RedisStore(server.url).redis.keys("*") == []
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_rows_that_are_deleted_while_they_are_read_are_an_error_of_one_line(store, monkeypatch):
    monkeypatch.setattr(versions, "BLOCK", 200)
    version = store.add("mine", MANY, origin())
    reading = store.samples(version)
    next(reading)
    store.delete(version)
    with pytest.raises(NotFound, match="are gone"):
        list(reading)


def test_rows_that_are_half_written_are_not_seen_and_go_by_themselves(store, server, monkeypatch):
    def rows():
        yield from MANY
        staged = [(key.decode().rpartition(":")[2][:4], redis.ttl(key) > 0) for key in redis.keys("*")]
        seen.append((staged, store.names(), list(store.each())))

    seen, redis = [], RedisStore(server.url).redis
    monkeypatch.setattr(versions, "BLOCK", 200)
    store.add("mine", rows(), origin())
    assert seen[0][1:] == ([], [])
    assert set(seen[0][0]) <= {("new-", True)}
    assert all(redis.ttl(key) == -1 for key in redis.keys("*"))


def test_an_import_deletes_the_rows_that_killed_ones_left_in_a_folder(in_folder, tmp_path, monkeypatch):
    monkeypatch.setattr(versions, "BLOCK", 200)
    kept = in_folder.add("new-" + "a" * 32, ROWS, origin())  # a dataset whose name is that of a staged folder
    killed, living = (tmp_path / "datasets" / f"new-{digit * 32}" for digit in "bc")
    for staged, age in (
        (killed, 87_000),
        (living, 86_000),
        (tmp_path / "datasets" / versions.rows_folder(kept), 87_000),
    ):
        staged.mkdir(exist_ok=True)
        (staged / "000000000.jsonl").touch()
        os.utime(staged, times=(time.time() - age,) * 2)
    in_folder.add("mine", MANY, origin())
    assert (killed.exists(), living.exists()) == (False, True)
    assert versions.rows_folder(kept) in {path.name for path in (tmp_path / "datasets").iterdir()}


def test_projects_do_not_see_each_other_s_datasets(server):
    every = RedisStore(server.url)
    every.redis.flushall()
    one, two, default = (every.of(name).datasets for name in ("one", "two", "default"))
    version = one.add("mine", ROWS, origin())
    assert (one.names(), two.names(), default.names()) == (["mine"], [], [])
    with pytest.raises(NotFound):
        list(two.samples(version))
    with pytest.raises(NotFound):
        two.delete(version)
    assert list(one.samples(version)) == ROWS
