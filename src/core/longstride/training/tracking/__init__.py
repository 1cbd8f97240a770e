"""Runs in Weights & Biases and MLflow."""
