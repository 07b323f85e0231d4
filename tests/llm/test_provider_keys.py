"""RAGASSAY_API_KEY belongs to an address: which calls carry it."""

import asyncio
import os
import subprocess
import sys

import pytest

import provider as play
from llm_calls import ask
from provider import Provider
from ragassay.core.eval_config import RunConfig
from ragassay.core.settings import Settings
from ragassay.evaluation import runtime
from ragassay.llm import Prices
from ragassay.llm.journal import MemoryJournal
from ragassay.systems.options import SystemConfig

KEY = "the-key-of-one-address"
OURS, OTHER = "http://ours.example/v1", "http://other.example/v1"


LOCAL = ("llamafile/m", "docker_model_runner/m", "lm_studio/m", "ollama/m", "hosted_vllm/m")
SENT = [
    ("m", OURS, OURS, True),
    ("m", OURS, OTHER, False),  # --api-base, or the api_base of a system, beside RAGASSAY_API_BASE
    ("m", None, OTHER, True),  # the address of the command line or the configuration is the only one
    ("gpt-4o-mini", None, None, True),
    *((model, None, None, False) for model in LOCAL),
    ("llamafile/m", OURS, OURS, True),
]


@pytest.mark.parametrize(("model", "configured", "address", "sent"), SENT)
def test_the_key_goes_to_its_own_address_or_to_a_hosted_provider(model, configured, address, sent, monkeypatch):
    settings = Settings(api_base=configured, api_key=KEY)
    assert runtime.api_key(model, address, settings) == (KEY if sent else None)
    if not address:  # the provider's own variable wins
        monkeypatch.setenv("OPENAI_API_KEY", "x")
        assert runtime.api_key(model, address, settings) is None


def test_a_server_that_litellm_finds_by_itself_gets_no_key(monkeypatch):
    with Provider(then=play.says("hello")) as provider:
        monkeypatch.setenv("LLAMAFILE_API_BASE", provider.url)
        spec = RunConfig(judges=("llamafile/m",), metrics=("relevance",))
        (rater,) = runtime.panel(spec, Settings(api_key=KEY)).raters
        asyncio.run(ask(rater.draws[0]._llm))
    assert KEY not in provider.log[0].auth


def test_a_system_with_an_address_of_its_own_does_not_get_the_key_of_another(monkeypatch):
    with Provider(then=play.says("hello")) as provider:
        settings = Settings(api_base=OURS, api_key=KEY)
        config = SystemConfig(kind="bm25", answer={"model": "m", "api_base": provider.url})
        answerer = runtime.answerer(config, settings, Prices(), MemoryJournal())
        asyncio.run(ask(answerer._llm))
    assert provider.log[0].auth == "Bearer no-key-needed"


def test_a_dotenv_of_the_folder_is_not_read_by_us_or_by_litellm(tmp_path):
    (tmp_path / ".env").write_text(
        "RAGASSAY_API_BASE=http://other.example/v1\nOPENAI_BASE_URL=http://other.example/v1\n"
    )
    code = """
import os
from ragassay.llm.resolve import litellm
from ragassay.core.settings import Settings
litellm()
print(Settings().api_base, os.environ.get('OPENAI_BASE_URL'))"""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("OPENAI", "RAGASSAY"))}
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.stdout == "None None\n", done.stderr
