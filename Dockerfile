# One image for API, workers and beat; docker-compose.yml says which command each runs.

FROM python:3.12-slim AS build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1
WORKDIR /src
RUN python -m venv /opt/ragassay
COPY constraints.txt ./
# With other embedding models: docker build --build-arg EXTRAS=parquet,pdf,xlsx,models .
ARG EXTRAS=parquet,pdf,xlsx
COPY pyproject.toml README.md LICENSE ./
COPY services services
COPY workers workers
COPY prompts prompts
COPY datasets datasets
RUN /opt/ragassay/bin/pip install --constraint constraints.txt ".[$EXTRAS]"

FROM python:3.12-slim
RUN useradd --uid 10001 --create-home --home-dir /var/lib/ragassay ragassay \
    && install -d -o ragassay -g ragassay -m 700 /var/lib/ragassay/uploads
COPY --from=build /opt/ragassay /opt/ragassay
ENV PATH=/opt/ragassay/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 \
    HF_HUB_OFFLINE=1 LITELLM_LOCAL_MODEL_COST_MAP=True XDG_CACHE_HOME=/tmp RAGASSAY_HOME=/var/lib/ragassay
WORKDIR /var/lib/ragassay
USER ragassay
EXPOSE 8400
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=5s --start-period=20s \
    CMD ["python", "-c", "import urllib.request as u; u.urlopen('http://127.0.0.1:8400/healthz', timeout=4)"]
CMD ["ragassay", "serve", "api", "--host", "0.0.0.0"]
