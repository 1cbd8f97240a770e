"""The simulator contract and the simulators that come with it."""
