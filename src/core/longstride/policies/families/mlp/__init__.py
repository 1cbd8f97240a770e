"""Multilayer perceptrons for actor and critic, without memory."""
