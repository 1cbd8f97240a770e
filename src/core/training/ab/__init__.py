"""--mode ab: two settings side by side, in interleaved pairs of fresh processes."""
