"""Input of a policy for any number of people and activities: descriptions of feasible pairs, and a summary."""
