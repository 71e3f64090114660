"""Every quantity that tables and figures print: its label, what it means, its unit and which way is better. Once."""

from dataclasses import dataclass

HEADLINE = "gacc_grid"  # the variant that published tables use


@dataclass(frozen=True)
class Metric:
    """One quantity of a run."""

    key: str
    label: str
    meaning: str = ""
    unit: str = "%"
    higher_is_better: bool = True
    digits: int = 2

    @property
    def titled(self) -> str:
        """The label, with its unit where that is not percent."""
        return self.label if self.unit in ("%", "") else f"{self.label} ({self.unit})"


_ALL = (
    Metric("base_first", "Base session", "base classes, before anything new is learned"),
    Metric("base_last", "Base classes", "of their test images, named correctly"),
    Metric("novel_last", "New classes", "of their test images, named correctly"),
    Metric("lacc", "lAcc", "all classes together"),
    Metric("gacc_grid", "gAcc, grid", "balance of old and new, as published: the headline"),
    Metric("gacc_exact", "gAcc, exact", "the same as a true integral"),
    Metric("aacc", "aAcc", "all classes seen so far"),
    Metric("base", "Base", "base classes"),
    Metric("novel", "Novel", "new classes seen so far"),
    Metric("hacc", "hAcc", "harmonic mean of base and novel"),
    Metric("tacc", "tAcc", "every session weighs the same"),
    Metric("pd", "PD", "points gained or, if negative, lost", "points"),
    Metric("rpd", "RPD", "the same in percent of the start"),
    Metric("kr", "KR", "share kept; 100 is everything"),
    Metric("forgetting", "F", "widest swing; lower is better", "points", higher_is_better=False),
    Metric("gacc_grid_per_session", "gAcc, grid"),
    Metric("gacc_exact_per_session", "gAcc, exact"),
    Metric("aacc_per_session", "aAcc"),
    Metric("seconds_base", "Base training", "once per network", "s", higher_is_better=False, digits=1),
    Metric("seconds_sessions", "All sessions", "learning and testing", "s", higher_is_better=False, digits=1),
    Metric("peak_memory_mb", "Peak memory", "", "MB", higher_is_better=False, digits=0),
    Metric("network_parameters", "Parameters of the network", "", "", higher_is_better=False, digits=0),
    Metric("kept_numbers", "Numbers kept beside it", "", "", higher_is_better=False, digits=0),
    Metric("ece_mass", "ECE, equal mass", higher_is_better=False, digits=1),
    Metric("ece_width", "ECE, equal width", higher_is_better=False, digits=1),
    Metric("nll", "NLL", "in nats", "nats", higher_is_better=False),
    Metric("brier", "Brier", "0 to 2", "", higher_is_better=False, digits=3),
    Metric("accuracy", "Accuracy"),
    Metric("confidence", "Confidence"),
)
METRICS: dict[str, Metric] = {metric.key: metric for metric in _ALL}


def label(key: str) -> str:
    return METRICS[key].label
