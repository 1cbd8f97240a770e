"""What a minibatch step costs: counted while the real step runs on tensors without numbers."""
