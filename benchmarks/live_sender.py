"""A small RAG app that is traced, as a user's would be; it prints how long its requests took.

``--exporter``: ``none`` has no tracing, ``otlp`` sends spans as OpenTelemetry's SDK does by default.
"""

import argparse
import json
import time

TOPICS = "backups refunds invoices passwords exports regions quotas webhooks".split()


def text_of(n: int) -> str:
    return f"The {TOPICS[n % 8]} of plan {n % 50} are handled within {n % 40 + 1} days."


def traced_app(tracer):
    """Question, retrieval and answer as spans by the conventions of OpenInference."""

    def answer(n: int) -> str:
        with tracer.start_as_current_span("answer") as root:
            root.set_attribute("openinference.span.kind", "CHAIN")
            root.set_attribute("input.value", f"How are the {TOPICS[n % 8]} of plan {n % 50} handled ({n})?")
            with tracer.start_as_current_span("search") as search:
                search.set_attribute("openinference.span.kind", "RETRIEVER")
                search.set_attribute("retrieval.documents.0.document.id", f"d{n}")
                search.set_attribute("retrieval.documents.0.document.content", text_of(n))
            with tracer.start_as_current_span("generate") as model:
                model.set_attribute("openinference.span.kind", "LLM")
                model.set_attribute("llm.model_name", "gpt-4o-mini")
                model.set_attribute("llm.token_count.prompt", 300)
                model.set_attribute("llm.token_count.completion", 30)
            root.set_attribute("output.value", text_of(n))
        return text_of(n)

    return answer


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--number", type=int, default=1000)
    options.add_argument("--rate", type=float, default=200.0)
    options.add_argument("--exporter", choices=["none", "otlp"], default="otlp")
    options.add_argument("--url", default="http://127.0.0.1:8400")
    options.add_argument("--service", default="bench")
    given = options.parse_args()

    from opentelemetry import trace

    if given.exporter != "none":
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor

        provider = TracerProvider(resource=Resource.create({"service.name": given.service}))
        provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(f"{given.url}/v1/traces"), 50_000))
        trace.set_tracer_provider(provider)
    app = traced_app(trace.get_tracer("bench"))
    times, began, behind = [], time.perf_counter(), 0.0
    for n in range(given.number):
        due = began + n / given.rate
        if (left := due - time.perf_counter()) > 0:
            time.sleep(left)
        else:
            behind = max(behind, -left)
        start = time.perf_counter()
        app(n)
        times.append(time.perf_counter() - start)
    took = time.perf_counter() - began
    if given.exporter != "none":
        provider.shutdown()
    times.sort()
    shares = {f"p{share}_ms": 1000 * times[int(len(times) * share / 100)] for share in (50, 95, 99)}
    mean = 1000 * sum(times) / len(times)
    print(json.dumps({"requests": given.number, "took_s": took, "mean_ms": mean, **shares, "behind_s": behind}))


if __name__ == "__main__":
    main()
