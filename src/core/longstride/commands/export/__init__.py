"""--mode export: a trained policy as files for other programs, and the proof that they compute the same."""
