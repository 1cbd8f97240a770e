"""Ways to take one minibatch step."""
