"""The completion script, in a real shell."""

import resource
import subprocess
import sys

import pytest


@pytest.fixture(scope="module")
def script(tmp_path_factory):
    path = tmp_path_factory.mktemp("completion") / "ragassay.bash"
    with path.open("w") as file:
        subprocess.run([sys.executable, "-m", "ragassay.cli", "completion", "bash"], stdout=file, check=True)
    return path


@pytest.fixture
def completed(script, tmp_path):
    (tmp_path / "home" / "runs" / "20260101-000000-mine-abcd").mkdir(parents=True)
    (tmp_path / "home" / "runs" / "2026$(echo run >&2)").mkdir()  # must not be run

    def complete(*words):
        lines = f"source {script}; COMP_WORDS=({' '.join(words)}); COMP_CWORD={len(words) - 1}; _ragassay; "
        shown = 'printf "%s\\n" "${COMPREPLY[@]}"'
        environment = {"RAGASSAY_HOME": str(tmp_path / "home"), "PATH": "/usr/bin:/bin"}
        found = subprocess.run(["bash", "-c", lines + shown], capture_output=True, text=True, env=environment)
        assert (found.returncode, found.stderr) == (0, "")
        return found.stdout.split()

    return complete


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("ragassay", "eva"), ["evaluate"]),
        (("ragassay", "evaluate", "d.jsonl", "--budget-"), ["--budget-usd", "--budget-tokens"]),
        (("ragassay", "evaluate", "--metrics", "faith"), ["faithfulness"]),
        (("ragassay", "evaluate", "--metrics", "mrr,rouge"), ["mrr,rouge1", "mrr,rouge2", "mrr,rougeL"]),
        (("ragassay", "evaluate", "--metrics", "rbp"), ["rbp@0.8"]),
        (("ragassay", "compare", "2026"), ["20260101-000000-mine-abcd"]),
        (("ragassay", "gate", "--run", "la"), ["last"]),
        (("ragassay", "trend", "complete"), ["completeness"]),
        (("ragassay", "data", "ch"), ["check"]),
    ],
)
def test_commands_options_metrics_and_runs_complete(words, expected, completed):
    assert completed(*words) == expected


def test_files_are_left_to_the_shell_and_nothing_of_ours_is_started(completed):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert completed("ragassay", "evaluate", '""') == []
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 0.2


def test_the_script_for_fish_has_the_same_commands_options_metrics_and_runs(cli):
    code, out, _ = cli("completion", "fish")
    assert code == 0
    assert "@" not in out.replace("@k", "").replace("@10", "").replace("@0.8", "")  # nothing is left to be filled in
    (evaluate,) = [line for line in out.splitlines() if "'__ragassay_is evaluate'" in line]
    assert {"--budget-usd", "--metrics", "--help"} <= set(evaluate.replace("'", " ").split())
    for line in ("complete -c ragassay -l metrics -x -a '(__ragassay_metrics)'", "-l run -l resume -l baseline -x"):
        assert line in out
    assert all(line.count("'") % 2 == 0 for line in out.splitlines())
