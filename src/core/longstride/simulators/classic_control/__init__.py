"""Five classic control problems as simulators, each equal step by step to its namesake in Gymnasium.

``CartPole`` (CartPole-v1), ``MountainCar`` (MountainCar-v0), ``MountainCarContinuous`` (MountainCarContinuous-v0),
``Acrobot`` (Acrobot-v1) and ``Pendulum`` (Pendulum-v1).

Sources: the equations, constants and limits are those of Gymnasium (Farama Foundation, MIT licence), which took them
from Barto, Sutton and Anderson (1983) for the pole, Moore (1990) for the mountain car, and Sutton (1996) and Sutton
and Barto (2018) for the acrobot.

Agreement: operations have Gymnasium's order and are rounded to float32 where Gymnasium on NumPy 2 rounds. So the same
state and action give the same outcome up to the last places of sine, cosine and square, which differ between
libraries. In a step the tests allow 1e-11 in the state, 1e-9 in the reward (Pendulum's has a float32 term), two units
in the last place of float32 in the observation, and no difference in ``terminated``, time limits and random draws.
Whole episodes may differ by 1e-6, the acrobot's by more, as it is chaotic.
"""

from longstride.simulators.classic_control.acrobot import Acrobot
from longstride.simulators.classic_control.cart_pole import CartPole
from longstride.simulators.classic_control.mountain_car import MountainCar, MountainCarContinuous
from longstride.simulators.classic_control.pendulum import Pendulum

__all__ = ["Acrobot", "CartPole", "MountainCar", "MountainCarContinuous", "Pendulum"]
