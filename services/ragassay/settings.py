"""The only reader of the environment: ``RAGASSAY_*`` variables and ``.env``."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from pydantic import Field, ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict

from ragassay.errors import BadSettings


class Settings(BaseSettings):
    """What the machine decides rather than the job. Every field is the variable ``RAGASSAY_<FIELD>``."""

    model_config = SettingsConfigDict(env_prefix="RAGASSAY_", env_file=".env", extra="ignore", frozen=True)

    def __init__(self, **given: Any) -> None:
        """Read them; raises BadSettings that names the variable."""
        try:
            super().__init__(**given)
        except ValidationError as error:
            first = error.errors()[0]
            variable = f"RAGASSAY_{'_'.join(map(str, first['loc'])).upper()}"
            raise BadSettings(f"{variable}: {first['msg'].lower()}, not {first['input']!r}") from None

    home: Path = Field(Path(".ragassay"), description="folder of runs and of the cache")
    judge: str = Field("local", description="judge that is used when none is named")
    api_base: str | None = Field(None, description="address of an OpenAI-compatible provider")
    api_key: str | None = Field(None, description="its key; else the provider's own variable is read", repr=False)
    embeddings: str | None = Field(None, description="a sentence-transformers model, name or folder; default: bundled")
    bootstrap_key: str | None = Field(
        None, repr=False, description="what every caller of /v1 must send as 'Authorization: Bearer ...'"
    )
    judges: str | None = Field(None, description="models that jobs may name, with commas; 'local' always is one")
    max_body_bytes: int = Field(2_000_000, ge=1_000, description="largest request body")
    max_concurrency: int = Field(32, ge=1, le=256, description="most judge calls at once that a job may ask for")
    max_timeout_s: float = Field(
        120.0, gt=0, le=3600, description="longest time for a judge call that a job may ask for"
    )
    server: str = Field("http://127.0.0.1:8400", description="where 'ragassay submit' and its like find the service")
    server_key: str | None = Field(None, repr=False, description="what they send as key")

    state_url: str | None = Field(
        None, description="Redis that keeps the jobs; redis://, rediss:// or unix://", repr=False
    )
    broker_url: str | None = Field(
        None, description="Redis that carries Celery's messages; default: the same", repr=False
    )
    lease_s: float = Field(60.0, gt=0, description="seconds after which a silent worker's chunk is given to another")
    sweep_s: float = Field(15.0, gt=0, description="seconds between two rounds of the sweeper")
    shutdown_s: float = Field(25.0, ge=1, description="seconds that a stopping worker may go on with its chunks")
    preload: Literal["all", "llm", "nothing"] = Field(
        "all", description="what a worker imports before its first job: LiteLLM and sentence-transformers, or less"
    )

    @property
    def state(self) -> str:
        """The address of the Redis that keeps the jobs."""
        return self.state_url or "redis://127.0.0.1:6379/0"

    @property
    def broker(self) -> str:
        """The address of the Redis that carries messages, as redis-py writes it."""
        return self.broker_url or self.state


class JobSettings(BaseSettings):
    """What ``RAGASSAY_<KEY>`` says about an evaluation: it beats the configuration file. Text, checked with the rest."""

    model_config = SettingsConfigDict(
        env_prefix="RAGASSAY_", env_file=".env", env_ignore_empty=True, extra="ignore", frozen=True
    )

    judge: str | None = None
    api_base: str | None = None
    metrics: str | None = None
    passes: str | None = None
    seed: str | None = None
    accurate: str | None = None
    max_missing: str | None = None
    limit: str | None = None
    confidence: str | None = None
    alpha: str | None = None
    concurrency: str | None = None
    timeout_s: str | None = None
    cache: str | None = None
    baseline: str | None = None
