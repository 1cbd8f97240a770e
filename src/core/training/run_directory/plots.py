"""A picture of the run, where matplotlib is installed."""

from pathlib import Path

from core.training.run_directory.metrics_log import read_metrics


def plot_learning_curve(directory: Path, metric: str) -> str:
    """Draw the main metric over the training episodes to ``learning_curve.png``.

    Args:
        directory: of the run; its metrics.jsonl is read.
        metric: name of the simulator's main metric, or ``"return"``.

    Returns:
        A sentence: where the picture is, or why there is none.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return "No learning_curve.png: matplotlib is not installed (pip install matplotlib)."
    records = read_metrics(directory)
    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.add_subplot()
    axes.plot([r["episode"] for r in records], [r["metrics"].get(metric, r["return"]) for r in records])
    axes.set_xlabel("training episode")
    axes.set_ylabel(metric.replace("_", " "))
    path = directory / "learning_curve.png"
    try:
        figure.savefig(path, dpi=120)
    except OSError as error:
        return f"No learning_curve.png: {error.strerror}."
    return f"Learning curve: {path}."
