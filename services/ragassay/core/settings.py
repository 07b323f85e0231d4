"""The only reader of the environment: ``RAGASSAY_*`` variables and the keys of providers."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from ragassay.core.addresses import check_address, check_bare_address
from ragassay.core.errors import BadSettings
from ragassay.core.formatting import split_names
from ragassay.core.validation import problems

if TYPE_CHECKING:
    from ragassay.core.http_guard import Allowed

Address = Annotated[str, AfterValidator(check_address)]
Names = Annotated[
    tuple[str, ...], BeforeValidator(lambda given: split_names(given) if isinstance(given, str) else given)
]
VARIABLE = re.compile(r"\$\{(\w+)\}")
SHORTEST_SECRET = 6  # characters; what is shorter stands in other words too
NEVER_SENT = "never sent"  # the key of a dry run, which asks nobody


class Settings(BaseModel):
    """What the machine decides rather than the job. Every field is the variable ``RAGASSAY_<FIELD>``."""

    model_config = ConfigDict(frozen=True)

    def __init__(self, **values: Any) -> None:
        """Read them; raises BadSettings that names the variable."""
        variables = {name: os.environ.get(f"RAGASSAY_{name.upper()}") for name in Settings.model_fields}
        try:
            super().__init__(**{name: value for name, value in variables.items() if value is not None} | values)
        except ValidationError as error:
            first = problems(error)[0]
            raise BadSettings(first.what, where=f"RAGASSAY_{first.place.upper()}") from None

    home: Path = Field(Path(".ragassay"), description="folder of runs and of the cache")
    judge: str = Field("local", description="judge that is used when none is named")
    api_base: Annotated[str, AfterValidator(check_bare_address)] | None = Field(
        None, description="address of an OpenAI-compatible provider"
    )
    api_key: str | None = Field(None, description="its key; else the provider's own variable is read", repr=False)
    judge_prompt: Path | None = Field(None, description="file with instructions for the judge's model, around ours")
    embeddings: str | None = Field(None, description="a sentence-transformers model, name or folder; default: bundled")
    bootstrap_key: str | None = Field(
        None,
        repr=False,
        description="the operator's key for /v1, sent as 'Authorization: Bearer ...'; good for all projects",
    )
    key_pepper: str | None = Field(
        None,
        repr=False,
        description="secret that the keys of projects are hashed with; with it, every request needs a key",
    )
    key_requests_per_minute: int = Field(1200, ge=0, description="requests of one key in a minute; 0: any number")
    judges: Names | None = Field(
        None,
        description="models that jobs may name, with commas, in addition to 'local'; default: any, with API keys RAGASSAY_JUDGE",
    )
    max_upload_bytes: int = Field(2**30, ge=1_000, description="largest upload of a dataset")
    max_concurrency: int = Field(
        32, ge=1, le=256, description="largest number of judge calls at once that a job may set"
    )
    max_timeout_s: float = Field(120.0, gt=0, le=3600, description="longest time for a judge call that a job may set")
    requests_per_minute: int | None = Field(
        None, ge=1, le=10**6, description="most requests of all workers to one model in a minute; default: any number"
    )
    tokens_per_minute: int | None = Field(None, ge=1, le=10**9, description="most tokens per minute of these requests")
    tls: bool = Field(False, description="a proxy ends TLS: send Strict-Transport-Security")
    outgoing_allowed: Annotated[str | None, AfterValidator(lambda names: _allowed(names) and names)] = Field(
        None, description="private hosts, host:port or networks that webhooks may reach, with commas"
    )
    server: Address = Field(
        "http://127.0.0.1:8400", description="address of the service for 'ragassay job', 'ragassay schedule' and Client"
    )
    server_key: str | None = Field(None, repr=False, description="the key that they send")

    plugins: Names = Field((), description="Python files and modules that register metrics, judges ..., with commas")
    systems: Path | None = Field(None, description="file of the systems that jobs may name; the form of ragassay.yaml")
    state_url: Address | None = Field(
        None, description="Redis that keeps the jobs; redis://, rediss:// or unix://", repr=False
    )
    broker_url: Address | None = Field(
        None, description="Redis that carries Celery's messages; default: the same", repr=False
    )
    lease_s: float = Field(60.0, gt=0, description="seconds without a heartbeat until a chunk goes to another worker")
    keep_results_days: int = Field(
        30, ge=1, le=36_500, description="days after its end for which a job's rows are kept, no longer than its report"
    )
    keep_reports_days: int = Field(
        400, ge=1, le=36_500, description="days after its end for which a job's report is kept"
    )
    keep_live_days: int = Field(
        30, ge=1, le=36_500, description="days for which states and windows of live traffic are kept"
    )
    live_silence_s: float = Field(
        180.0,
        ge=1,
        le=86_400,
        description="seconds without a span after which a request whose root did not come is complete",
    )
    live_redacted: Names = Field(
        (),
        description="attributes of spans that are never stored, with commas; * matches any text: user.*, metadata.email",
    )
    shutdown_s: float = Field(25.0, ge=1, description="seconds that a stopping worker may go on with its chunks")
    log_format: Literal["text", "json"] = Field(
        "text", description="log lines of the service: text, or one JSON object a line"
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        "info", description="from which level on the service logs its events"
    )
    metrics_key: str | None = Field(
        None, repr=False, description="key of /metrics, sent as 'Authorization: Bearer ...', in place of any other key"
    )

    @property
    def of_dry_run(self) -> Settings:
        """These with a key where there is none: a dry run asks nobody, so it needs none."""
        return self.model_copy(update={"api_key": self.api_key or NEVER_SENT})

    @property
    def outgoing(self) -> Allowed:
        """What webhooks may reach although it is private."""
        return _allowed(self.outgoing_allowed)

    @property
    def expects_models(self) -> bool:
        """Is anything set up for language models: a judge that is one, an address, a key?"""
        return bool(self.judge != "local" or self.judges or self.api_base or self.api_key or provider_keys())

    @property
    def state(self) -> str:
        """The address of the Redis that keeps the jobs."""
        return self.state_url or "redis://127.0.0.1:6379/0"

    @property
    def broker(self) -> str:
        """The address of the Redis that carries messages, as redis-py writes it."""
        return self.broker_url or self.state

    @property
    def redis_servers(self) -> dict[Literal["state", "broker"], str]:
        """The addresses of both, or of one where both are the same."""
        servers: dict[Literal["state", "broker"], str] = {"state": self.state}
        if self.broker != self.state:
            servers["broker"] = self.broker
        return servers


def _allowed(names: str | None) -> Allowed:
    from ragassay.core.http_guard import Allowed

    return Allowed.read(split_names(names or ""))


def has_collector() -> bool:
    """Does a variable that OpenTelemetry's SDK reads name a collector of spans?"""
    return any(os.environ.get(f"OTEL_EXPORTER_OTLP_{kind}ENDPOINT") for kind in ("", "TRACES_"))


def sends_trace_headers() -> bool:
    """May requests carry ``traceparent``? OpenTelemetry's own variable says if not."""
    return os.environ.get("OTEL_PROPAGATORS", "").strip() != "none"


def with_variables(text: str) -> str:
    """The text with each ``${NAME}`` replaced by that environment variable; raises KeyError for one that is not set."""
    return VARIABLE.sub(lambda name: os.environ[name[1]], text)


def without_values(text: str, *templates: str) -> str:
    """The text without the values of the ``${NAME}`` in ``templates``: what others say may repeat what they were sent."""
    return without(text, {os.environ.get(name, "") for template in templates for name in VARIABLE.findall(template)})


def without(text: str, values: Iterable[str], *, shortest: int = SHORTEST_SECRET) -> str:
    """The text with ``***`` for each of the values that has so many characters; the longest first, for one may hold another."""
    for value in sorted({value for value in values if len(value) >= shortest}, key=len, reverse=True):
        text = text.replace(value, "***")
    return text


def secrets() -> list[str]:
    """Values of all environment variables that are named like a key; for taking them out of what others wrote."""
    named = re.compile(r"(?:KEY|TOKEN|SECRET|PASSWORD|PEPPER)$")
    return [value for name, value in os.environ.items() if named.search(name)]


def provider_address(provider: str) -> str | None:
    """The address in a provider's own variable, such as OPENAI_BASE_URL, which LiteLLM reads where none is given."""
    names = (f"{provider.upper()}_BASE_URL", f"{provider.upper()}_API_BASE")
    return next((os.environ[name] for name in names if os.environ.get(name)), None)


def provider_keys() -> list[str]:
    """Names of the variables that are set and hold a provider's key, such as OPENAI_API_KEY."""
    return sorted(name for name, value in os.environ.items() if value and name.endswith("_API_KEY"))
