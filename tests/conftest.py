"""What all tests share: offline models, a home of their own, and skips that can't go unseen."""

import logging
import os
import signal
import sys
from functools import cache

import pytest
import typer
from hypothesis import HealthCheck, Phase, settings

# the length of an example says more of the machine than of the code
settings.register_profile("any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any machine")
# a planted fault needs no smallest example
settings.register_profile("first failure", phases=[Phase.explicit, Phase.reuse, Phase.generate])
os.environ.update(HF_HUB_OFFLINE="1", TRANSFORMERS_OFFLINE="1", LITELLM_LOCAL_MODEL_COST_MAP="True", NO_COLOR="1")
# A shell starts a background command with SIGINT ignored, and its children inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def _own_home(tmp_path_factory, monkeypatch):
    """No test sees the developer's runs, cache, or keys."""
    for name in list(os.environ):
        if name.startswith("RAGASSAY_") or name.endswith("_API_KEY"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("RAGASSAY_HOME", str(tmp_path_factory.mktemp("home")))
    monkeypatch.setattr("ragassay.core.plugins.imported_plugins", {})  # plug-ins of one test are none of the next one's


_parser = cache(typer.main.get_command)  # of the commands; made once in a process


@pytest.fixture
def cli(capsys, monkeypatch, tmp_path):
    """Runs a command in an empty folder; returns exit code, stdout, and stderr without the line on a found configuration."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RAGASSAY_HOME", str(tmp_path / "home"))

    from ragassay.cli import main

    monkeypatch.setattr(typer.main, "get_command", _parser)
    logger, root = logging.getLogger("ragassay"), logging.getLogger()
    level, handlers = logger.level, list(root.handlers)

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["ragassay", *map(str, arguments)])
        with pytest.raises(SystemExit) as stopped:
            main()
        out, err = capsys.readouterr()
        return stopped.value.code, out, err.removeprefix(run.found)

    def refused(*arguments, code=2):
        """The one line on stderr of a command that ends with this code and prints nothing else."""
        got, out, err = run(*arguments)
        assert (got, out, err[:7], err.count("\n")) == (code, "", "error: ", 1), err
        return err

    run.found, run.refused = "configuration: ragassay.yaml\n", refused
    yield run
    logger.setLevel(level)  # what -v changed
    root.handlers[:] = handlers


@pytest.fixture
def own_things():
    """What a test registers is unknown again after it."""
    from ragassay.judges.custom import JUDGES
    from ragassay.metrics.metric import METRICS
    from ragassay.reporting.files import EXPORTERS
    from ragassay.systems.functions import SYSTEMS

    METRICS.import_ours()  # they would not register twice
    with pytest.MonkeyPatch.context() as patch:
        for registry in (METRICS, JUDGES, SYSTEMS, EXPORTERS):
            patch.setattr(registry, "_things", dict(registry._things))
        yield


def pytest_collection_modifyitems(items):
    """The file that takes longest comes first: begun at the end, it would have all processes but one wait for it."""
    items.sort(key=lambda item: not item.path.match("service/test_service.py"))


def pytest_terminal_summary(terminalreporter):
    skipped = terminalreporter.stats.get("skipped", [])
    if skipped:
        terminalreporter.section("SKIPPED TESTS: these promises were not checked")
        for report in skipped:
            terminalreporter.line(f"{report.nodeid}: {report.longrepr[-1]}")


def pytest_sessionfinish(session, exitstatus):
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if os.environ.get("CI") and reporter and reporter.stats.get("skipped"):
        session.exitstatus = 1
