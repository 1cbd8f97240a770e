"""Environment instances that fill their trajectories with episodes."""
