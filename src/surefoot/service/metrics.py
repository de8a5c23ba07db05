"""Figures for Prometheus."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily

from surefoot.service.host import Host

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)


class Metrics:
    """What the service counts, and the state of its experiments."""

    def __init__(self, host: Host) -> None:
        self._host, self._registry = host, CollectorRegistry()
        self._requests = Histogram(
            "surefoot_request_seconds", "Time from a request to its answer", ["method", "route"], buckets=SECONDS,
            registry=self._registry,
        )  # fmt: skip
        self._answers = self._counter("surefoot_answers", "Answers by status", "method", "route", "status")
        self._decisions = self._counter("surefoot_decisions", "Decisions answered with", "experiment", "mode")
        self._feedback = self._counter("surefoot_feedback", "Feedback by how it was taken", "experiment", "status")
        unlogged = self._counter("surefoot_unlogged", "Decisions for the baseline that are in no log", "experiment")
        host.unlogged = lambda name, count: unlogged.labels(name).inc(count)
        commits = Histogram(
            "surefoot_commit_seconds", "Time of a commit, which answers share", buckets=SECONDS, registry=self._registry
        )
        host.committed = commits.observe
        self._counted: dict[tuple[Counter, str, str], Counter] = {}
        self._registry.register(self)

    def _counter(self, name: str, help: str, *labels: str) -> Counter:
        return Counter(name, help, labels, registry=self._registry)

    def counter_of(self, method: str, route: str) -> Callable[[int, float], None]:
        """What counts the answers of a route, by their status and how long they took."""
        seconds_of, answers = self._requests.labels(method, route), dict[int, Counter]()

        def seen(status: int, seconds: float) -> None:
            if status not in answers:
                answers[status] = self._answers.labels(method, route, str(status))
            seconds_of.observe(seconds)
            answers[status].inc()

        return seen

    def decided(self, experiment: str, mode: str) -> None:
        """Count a decision."""
        self._count(self._decisions, experiment, mode)

    def reported(self, experiment: str, status: str) -> None:
        """Count feedback."""
        self._count(self._feedback, experiment, status)

    def _count(self, counter: Counter, experiment: str, label: str) -> None:
        found = self._counted.get((counter, experiment, label))
        if found is None:
            found = self._counted[counter, experiment, label] = counter.labels(experiment, label)
        found.inc()

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """The state of the experiments, as Prometheus asks for it."""
        ready = GaugeMetricFamily("surefoot_ready", "1 if the service answers")
        ready.add_metric([], float(self._host.ready))
        yield ready
        texts = {
            "pending": "Decisions that wait for feedback",
            "rounds": "Settled decisions that were learnt",
            "epoch": "How often the experiment was changed or begun again",
            "safe_weight": "How much of the baseline is served because of the guardrails",
            "delta_spent": "Probability with which the guarantee may have failed",
            "alarms": "Alarms so far",
            "held": "1 if the experiment is held",
            "lost": "Largest share of feedback lost by an arm",
        }
        gauges = {name: GaugeMetricFamily(f"surefoot_{name}", text, labels=["experiment"])
                  for name, text in texts.items()}  # fmt: skip
        for name, live in list(self._host.lives.items()):
            if live.broken or not self._host.ready:
                continue
            status = live.status()
            values = {
                **{one: getattr(status, one) for one in ("pending", "rounds", "epoch", "safe_weight", "delta_spent")},
                "alarms": len(status.alarms),
                "held": status.state == "held",
                "lost": max(status.lost.values()),
            }
            for one, value in values.items():
                gauges[one].add_metric([name], float(value))
        yield from gauges.values()

    def text(self) -> bytes:
        """Everything, in the format of Prometheus."""
        return generate_latest(self._registry)
