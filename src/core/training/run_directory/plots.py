"""Learning curve of a run as a picture, where matplotlib is installed."""

from pathlib import Path

from core.training.run_directory.directory import RunDirectory
from core.training.run_directory.metrics_log import read_metrics


def plot_learning_curve(directory: Path, metric: str) -> str:
    """Draw a metric or the return over the iterations to ``learning_curve.png``; say where it is or why it is not."""
    path = RunDirectory(directory).learning_curve
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return f"No {path.name}: matplotlib is not installed (pip install matplotlib)."
    records = read_metrics(directory)
    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.add_subplot()
    axes.plot([r["iteration"] for r in records], [r["metrics"].get(metric, r["return"]) for r in records])
    axes.set_xlabel("iteration")
    axes.set_ylabel(metric.replace("_", " "))
    try:
        figure.savefig(path, dpi=120)
    except OSError as error:
        return f"No {path.name}: {error.strerror}."
    return f"Learning curve: {path}."
