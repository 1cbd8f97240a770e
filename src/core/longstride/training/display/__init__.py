"""What a person sees of a run."""
