"""The error that a log of limited size leaves in predictions: logs like it are drawn, mined and changed again."""
