"""--mode doctor: checks of machine, settings and a run, each with what was measured and what to do."""
