"""--mode init: write a hyperparameters.py to edit."""
