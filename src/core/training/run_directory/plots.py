"""Learning curve of a run as a picture, where matplotlib is installed."""

from pathlib import Path

from core.training.run_directory.directory import RunDirectory
from core.training.run_directory.metrics_log import read_metrics


def plot_learning_curve(directory: Path, metric: str) -> str:
    """Draw a metric over the iterations to ``learning_curve.png``; say where it is or why it is not.

    Where it is not known of every iteration, the return is drawn, and where most end no episode, the mean reward.
    """
    path = RunDirectory(directory).learning_curve
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return f"No {path.name}: matplotlib is not installed (pip install matplotlib)."
    records = read_metrics(directory)
    values = [r["metrics"].get(metric, r["return"]) for r in records]
    if 2 * sum(value is None for value in values) > len(values):
        metric, values = "mean_reward", [r.get("mean_reward") for r in records]
    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.add_subplot()
    axes.plot([r["iteration"] for r in records], values)
    axes.set_xlabel("iteration")
    axes.set_ylabel(metric.replace("_", " "))
    try:
        figure.savefig(path, dpi=120)
    except OSError as error:
        return f"No {path.name}: {error.strerror}."
    return f"Learning curve: {path}."
