"""``--mode backtest``: mines the first part of a log and predicts the rest of it."""
