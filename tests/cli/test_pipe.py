"""A reader that closes the pipe, as ``head`` does."""

import subprocess
import sys

import pytest


@pytest.mark.parametrize("command", [("info", "schema", "report"), ("info", "metrics", "--json"), ("--help",)])
def test_a_closed_pipe_ends_the_command_quietly_with_the_status_of_sigpipe(command):
    with subprocess.Popen(
        [sys.executable, "-m", "ragassay.cli", *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        process.stdout.close()  # before it writes anything
        said = process.stderr.read()
        assert (process.wait(60), said) == (141, b"")
