"""Files that are small and become large: one line says so, in bounded memory."""

import json
import subprocess
import sys

import pytest

from ragassay.core import files
from ragassay.core.errors import TooLarge
from ragassay.datasets.load import load

MIB = 2**20
ROOM = 700 * MIB
LOAD = """
import resource, sys
from ragassay.datasets.load import load
from ragassay.core.errors import AssayError
import numpy, pyarrow.parquet
resource.setrlimit(resource.RLIMIT_AS, (int(sys.argv[2]) + {used}, -1))
try:
    load(sys.argv[1])
except AssayError as error:
    print(type(error).__name__, error)
""".format(used="int(open('/proc/self/statm').read().split()[0]) * resource.getpagesize()")


def in_little_memory(path):
    """What a process with some hundred MiB to spare prints when it reads a file."""
    arguments = [sys.executable, "-c", LOAD, str(path), str(ROOM)]
    done = subprocess.run(arguments, capture_output=True, text=True, timeout=100)
    assert done.stderr == ""
    assert done.stdout.count("\n") == 1
    return done.stdout.rstrip("\n")


def test_a_parquet_file_of_one_long_value_is_refused(tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = tmp_path / "bomb.parquet"
    column = pa.DictionaryArray.from_arrays(pa.array([0] * 20_000, pa.int32()), ["x" * MIB])
    pq.write_table(pa.table({"query": column}), path, compression="zstd")
    assert path.stat().st_size < 6 * MIB
    assert in_little_memory(path).startswith(f"TooLarge {path}: holds more than ")


def test_a_parquet_file_of_endless_nulls_is_refused(tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = tmp_path / "nulls.parquet"
    pq.write_table(pa.table({"query": pa.nulls(10_000_000, pa.int8())}), path)
    with pytest.raises(TooLarge, match="holds more than"):
        load(path)


def test_an_endless_line_is_refused(tmp_path):
    path = tmp_path / "a.jsonl"
    with path.open("wb") as file:
        for _ in range(66):
            file.write(b"x" * MIB)
    said = in_little_memory(path)
    assert said.startswith(f"TooLarge {path}:1: the line is longer than 67,108,864 bytes")


def test_a_line_of_the_largest_length_is_read(tmp_path, monkeypatch):
    path = tmp_path / "a.jsonl"
    line = json.dumps({"query": "x" * 200, "answer": "y"}).encode() + b"\n"
    path.write_bytes(line * 2)
    assert [len(each) for _, each in files.numbered_lines(path, len(line))] == [len(line)] * 2
    path.write_bytes(line * 2 + line.replace(b"y", b"yy"))
    with pytest.raises(TooLarge, match=r"a\.jsonl:3: the line is longer than"):
        list(files.numbered_lines(path, len(line)))


def test_a_million_columns_are_refused(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text(",".join(f"c{n}" for n in range(1_000_000)) + "\n" + "," * 999_999 + "\n")
    assert in_little_memory(path) == f"TooLarge {path}: has 1,000,000 columns, at most 10,000 are read"


def test_a_quote_that_is_never_closed_is_refused(tmp_path):
    path = tmp_path / "a.csv"
    with path.open("w") as file:
        file.write('query\n"')
        for _ in range(70):
            file.write("x" * MIB + "\n")
    assert "is a quote never closed" in in_little_memory(path)


def test_what_does_not_fit_into_memory_is_one_line(tmp_path):
    path = tmp_path / "a.json"
    path.write_text("[" + ",".join(["[]"] * 30_000_000) + "]")
    said = in_little_memory(path)
    assert said == f"TooLarge {path}: does not fit into the memory of this process; evaluate it in parts"
