"""A custom exporter: the means of a report as text, for -o means.txt."""

from ragassay import Report, exporter


@exporter("txt")
def means(report: Report) -> str:
    """A line for each system and metric."""
    lines = []
    for system, part in report.systems.items():
        lines += [f"{system} {name} {metric.value}" for name, metric in part.metrics.items()]
    return "\n".join([*lines, ""])
