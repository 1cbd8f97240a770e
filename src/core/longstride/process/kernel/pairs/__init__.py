"""What a policy reads of pairs of people and activities: features of actions, descriptions of feasible pairs."""
