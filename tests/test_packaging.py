"""The wheel: what is in it, and that it works away from the checkout."""

import json
import os
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(folder), str(ROOT)]
    subprocess.run(command, check=True, timeout=240)
    return next(folder.glob("*.whl"))


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    """The bin folder of a fresh environment with the wheel, and this environment's packages except the checkout."""
    home = tmp_path_factory.mktemp("installed") / "venv"
    venv.create(home, with_pip=False)
    site = next(home.glob("lib/python*/site-packages"))
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    packages = sysconfig.get_paths()["purelib"]
    (site / "others.pth").write_text(packages + "\n")
    return home / "bin"


def ragassay(bin_folder, *arguments, cwd, **environment):
    """The command of the installed package, far from the repository."""
    code = "from ragassay.cli import main; main()"
    command = [str(bin_folder / "python"), "-c", code, *arguments]
    return subprocess.run(
        command, cwd=cwd, env={**os.environ, **environment}, capture_output=True, text=True, timeout=120, check=False
    )


def test_the_wheel_holds_the_packages_prompts_and_datasets_and_nothing_under_a_generic_name(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.split("/")[0].split("-")[0] for name in names} == {"ragassay", "ragassay_workers"}
    for part in (
        "_shipped/prompts/judge/verdict.md",
        "_shipped/datasets/quickstart/queries.jsonl",
        "py.typed",
        "embeddings/all-MiniLM-L6-v2/model.onnx",
        "embeddings/all-MiniLM-L6-v2/tokenizer.json",
    ):
        assert f"ragassay/{part}" in names
    assert any(name.startswith("ragassay/service/scripts/") for name in names)
    assert not [name for name in names if "_shipped" in name and name.endswith(".py")]
    datasets = {name.split("/")[3] for name in names if name.startswith("ragassay/_shipped/datasets/")}
    assert datasets == {"quickstart"}


def test_the_installed_package_runs_from_any_directory(installed, tmp_path):
    where = ragassay(installed, "info", "doctor", "--json", cwd=tmp_path)
    findings = {finding["what"]: finding["detail"] for finding in map(json.loads, where.stdout.splitlines())}
    assert "_shipped" in findings["prompts"]
    assert str(ROOT) not in findings["datasets"]
    done = ragassay(installed, "demo", cwd=tmp_path, RAGASSAY_HOME=str(tmp_path / "home"))
    assert done.returncode == 0, done.stderr
    assert "cost in USD" in done.stdout


def test_an_editable_install_reads_prompts_and_datasets_from_the_checkout():
    from ragassay.core.package_data import folder

    assert folder("prompts") == ROOT / "prompts"
    assert folder("datasets") == ROOT / "datasets"
