"""Further outcomes of the steps that are played."""
