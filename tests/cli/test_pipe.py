"""A reader that closes the pipe, as ``head`` does."""

import subprocess
import sys


def test_a_closed_pipe_ends_the_command_quietly_with_the_status_of_sigpipe():
    command = [sys.executable, "-m", "ragassay.cli", "info", "metrics", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdout.close()  # before it writes anything
        said = process.stderr.read()
        assert (process.wait(60), said) == (141, b"")
