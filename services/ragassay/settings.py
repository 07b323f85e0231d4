"""The only reader of the environment: ``RAGASSAY_*`` variables and ``.env``."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict


class Settings(BaseSettings):
    """What the machine decides rather than the job. Every field is the variable ``RAGASSAY_<FIELD>``."""

    model_config = SettingsConfigDict(env_prefix="RAGASSAY_", env_file=".env", extra="ignore", frozen=True)

    home: Path = Field(Path(".ragassay"), description="folder of runs and of the cache")
    judge: str = Field("local", description="judge that is used when none is named")
    api_base: str | None = Field(None, description="address of an OpenAI-compatible provider")
    api_key: str | None = Field(None, description="its key; else the provider's own variable is read", repr=False)
    embeddings: str | None = Field(None, description="a sentence-transformers model, name or folder; default: bundled")
