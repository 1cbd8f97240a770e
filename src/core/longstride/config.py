"""Every knob of a run as one validated, frozen Config, and a flag for each."""

import argparse
import json
import math
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, NoReturn, get_args

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError

from longstride.errors import UserError, suggestion
from longstride.policies.families.families import FAMILIES
from longstride.removed_settings import refuse_removed, without_removed

if TYPE_CHECKING:
    FamilyName = str
else:
    FamilyName = Literal[tuple(FAMILIES)]  # the choices of a flag


class Config(BaseModel):
    """Every knob of a run, lower case; hyperparameters.py says what each one does.

    The defaults here are those of hyperparameters.py as it is shipped (a test compares them). ``longstride`` exports
    this class as ``Hyperparameters``.

    Raises:
        UserError: an unknown name, a wrong type or a value out of range.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    training_episodes: int = Field(default=50, ge=1)
    preset: Literal["", "quick_test", "standard", "production", "extended", "guide", "large_transformer"] = ""
    time_budget: str = ""
    seed: int = Field(default=0, ge=0, lt=2**63)
    evaluation_episodes: int = Field(default=30, ge=2)
    evaluate_every: int = Field(default=-1, ge=-1)
    run_directory: str = ""
    checkpoints_kept: int = Field(default=3, ge=1, le=1000)
    simulator: str = "process"
    simulator_options: dict[str, JsonValue] = Field(default_factory=dict)
    scenario: str = "loan_desk"
    event_log: str = ""
    log_columns: str = ""
    time_format: str = ""
    time_zone: str = ""
    object_type: str = ""
    skip_bad_rows: bool = False
    keep_duplicates: bool = False
    log_arrivals: Literal["weekly", "replay"] = "weekly"
    log_max_bytes: int = Field(default=8_000_000_000, ge=1, lt=2**63)
    log_max_unpacking: int = Field(default=200, ge=1, lt=2**63)
    log_max_memory: int = Field(default=4_000_000_000, ge=1, lt=2**63)
    log_max_rows: int = Field(default=50_000_000, ge=1, lt=2**63)
    log_max_columns: int = Field(default=1_000, ge=1, le=1_000_000)
    log_max_sheets: int = Field(default=100, ge=1, le=1_000_000)
    log_max_nesting: int = Field(default=100, ge=10, le=100_000)
    log_max_seconds: float = Field(default=60.0, ge=0, le=threading.TIMEOUT_MAX)
    policy_network: FamilyName = "mlp"
    policy_prior: Literal["auto", "rule", "fifo", "spt", "logged"] = "auto"
    actor_hidden_size: int = Field(default=128, ge=1, le=4096)
    critic_hidden_size: int = Field(default=256, ge=1, le=16384)
    num_hidden_layers: int = Field(default=3, ge=1, le=16)
    context_length: int = Field(default=20, ge=1, le=1024)
    attention_heads: int = Field(default=4, ge=1, le=64)
    feed_forward_factor: int = Field(default=2, ge=1, le=8)
    activation: Literal["relu", "tanh"] = "relu"
    weight_init: Literal["orthogonal", "xavier_uniform", "kaiming_uniform"] = "orthogonal"
    initial_log_std: float = Field(default=0.0, ge=-10, le=5)
    normalise_observations: bool = True
    normalise_rewards: bool = False
    algorithm: Literal["ppo", "grpo"] = "ppo"
    group_size: int = Field(default=8, ge=2, le=1024)
    divide_by_group_deviation: bool = False
    kl_coefficient: float = Field(default=0.0, ge=0, le=1e6)
    learning_rate_actor: float = Field(default=3e-4, gt=0, le=1)
    learning_rate_critic: float = Field(default=1e-3, gt=0, le=1)
    adam_epsilon_actor: float = Field(default=1e-5, gt=0, le=1)
    learning_rate_schedule: Literal["linear", "constant"] = "linear"
    horizon: float = Field(default=500.0, ge=2, le=1e9)
    grow_horizon: bool = True
    gamma: float = Field(default=0.0, ge=0, le=1)
    discount_per: Literal["time", "decision"] = "time"
    gae_lambda: float = Field(default=0.8, ge=0, le=1)
    value_lambda: float = Field(default=0.95, ge=0, le=1)
    ppo_clip_param: float = Field(default=0.2, gt=0, le=1)
    num_epochs: int = Field(default=3, ge=1, le=100)
    entropy_coefficient: float = Field(default=0.03, ge=0, le=1)
    entropy_schedule: Literal["linear", "constant"] = "linear"
    entropy_coefficient_final: float = Field(default=0.0, ge=0, le=1)
    value_coefficient: float = Field(default=0.5, gt=0, le=10)
    max_grad_norm: float = Field(default=0.5, gt=0)
    target_kl: float = Field(default=0.01, ge=0)
    auto_batch_size: bool = True
    batch_size: int = Field(default=512, ge=1, le=65536)
    device: Literal["auto", "cpu", "cuda"] = "auto"
    use_mixed_precision: bool = True
    precision: Literal["auto", "bf16", "fp16", "fp32"] = "auto"
    use_tf32: bool = True
    gradient_checkpointing: bool = False
    grow_rollouts: bool = True
    episodes_per_update: int = Field(default=0, ge=0, le=4096)
    rollout_steps: int = Field(default=0, ge=0, le=10_000_000)
    episode_time_limit: float = Field(default=3600.0, ge=0, le=threading.TIMEOUT_MAX)
    simulation_threads: int = Field(default=0, ge=0, le=4096)
    update_threads: int = Field(default=0, ge=0, le=4096)
    collect_on: Literal["auto", "cpu", "gpu", "torch"] = "auto"
    rollout_hosts: str = ""
    rollout_lag: int = Field(default=0, ge=0, le=1)
    update_execution: Literal["auto", "eager", "compiled", "compile", "graph", "compile_graph"] = "auto"
    service_connections: int = Field(default=1000, ge=1, le=100_000)
    service_write_seconds: float = Field(default=20.0, gt=0, le=3600)
    service_drain_seconds: float = Field(default=10.0, gt=0, le=3600)
    service_reload_seconds: float = Field(default=0.0, ge=0, le=86_400)

    @property
    def options_of_simulator(self) -> dict[str, Any]:
        """Arguments of the simulator: SIMULATOR_OPTIONS, and of the process the settings that are its options."""
        named = {name: getattr(self, name) for name in PROCESS_OPTIONS} if self.simulator == "process" else {}
        return {**named, **self.simulator_options}

    if not TYPE_CHECKING:  # type checkers and editors derive the names from the fields

        def __init__(self, **values: Any) -> None:
            values = without_removed({name: _plain(value) for name, value in values.items()}, {}, str.lower)
            _refuse_unknown(values, {}, str.lower)
            try:
                super().__init__(**values)
            except ValidationError as error:
                problem = error.errors()[0]
                message = problem["msg"].removeprefix("Input should be ").removeprefix("input was not ")
                raise UserError(f"{problem['loc'][0]}: {problem['input']!r} should be {message}.") from None


LOG_LIMITS = tuple(name for name in Config.model_fields if name.startswith("log_max_"))
"""What reading an event log may take."""

PROCESS_OPTIONS = (
    *("scenario", "event_log", "log_columns", "log_arrivals", "policy_prior"),
    *("time_format", "time_zone", "object_type", "skip_bad_rows", "keep_duplicates", *LOG_LIMITS),
)
"""Settings that are options of the simulator ``process``, and have flags and names of their own."""


def load_values(values: Mapping[str, Any], where: str) -> Config:
    """Return the Config of some lower-case names, which come from somewhere; the others have their defaults.

    Raises:
        UserError: an unknown name, a wrong type or a value out of range.
    """
    return validated(dict(values), {name: f"{where}: {name}" for name in values})


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add one flag for each name of Config; values stay text until pydantic reads them."""
    group = parser.add_argument_group("hyperparameters (see hyperparameters.py for what each one does)")
    for name, field in Config.model_fields.items():
        if name == "simulator_options":
            flags = ("--simulator-option", flag_of(name))
            group.add_argument(*flags, dest=name, action=_AddOption, default=argparse.SUPPRESS, metavar="NAME=VALUE")
        elif name in _SEVERAL:
            metavar = _SEVERAL[name]
            group.add_argument(flag_of(name), action=_Several, nargs="+", default=argparse.SUPPRESS, metavar=metavar)
        elif field.annotation is bool:
            group.add_argument(flag_of(name), action=argparse.BooleanOptionalAction, default=argparse.SUPPRESS)
        else:
            choices = get_args(field.annotation) if field.annotation not in (int, float, str) else ()
            metavar = "|".join(filter(None, choices)) or getattr(field.annotation, "__name__", "value").upper()
            group.add_argument(flag_of(name), default=argparse.SUPPRESS, metavar=metavar)


def flags_of(options: Mapping[str, Any]) -> list[str]:
    """Return the words of a command line that :func:`add_flags` reads as these values of lower-case names."""
    words: list[str] = []
    for name, value in options.items():
        if isinstance(value, bool):
            words.append(flag_of(name) if value else flag_of(f"no_{name}"))
        elif isinstance(value, dict):
            for option, setting in value.items():
                words += ["--simulator-option", f"{option}={json.dumps(setting)}"]
        else:
            separate = not str(value).startswith("-")  # else it looks like a flag
            words += [flag_of(name), str(value)] if separate else [f"{flag_of(name)}={value}"]
    return words


class _AddOption(argparse.Action):
    """Collects the NAME=VALUE of a flag that may be repeated in one dictionary."""

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any, option: str | None = None
    ) -> None:
        name, equals, value = values.partition("=")
        if not name or not equals:
            raise argparse.ArgumentError(self, f"{values!r} is not NAME=VALUE")
        setattr(namespace, self.dest, {**getattr(namespace, self.dest, {}), name: _scalar(value)})


_SEVERAL = {"run_directory": "DIR", "scenario": "STR"}
"""Flags that take several values in some mode."""

FURTHER = {"run_directory": "further_runs", "scenario": "further_scenarios"}
"""Where the values of such a flag behind its first one are found."""


class _Several(argparse.Action):
    """Takes the first of some values as the setting, and the others as ``further_...``."""

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any, option: str | None = None
    ) -> None:
        setattr(namespace, self.dest, values[0])
        if values[1:]:
            setattr(namespace, FURTHER[self.dest], values[1:])


class Parser(argparse.ArgumentParser):
    """An argument parser whose errors are one sentence with the nearest valid flag."""

    def error(self, message: str) -> NoReturn:
        """Raise a UserError in place of printing the usage and exiting."""
        raise UserError(message[0].upper() + message[1:] + ("" if message.endswith(".") else "."))

    def parse_known_flags(self, arguments: Sequence[str] | None) -> argparse.Namespace:
        """Parse all arguments.

        Raises:
            UserError: an unknown flag, with the nearest known one; a removed one; or a flag without its value.
        """
        namespace, unknown = self.parse_known_args(arguments)
        if unknown:
            raise UserError(self.not_known(unknown[0]))
        return namespace

    def not_known(self, word: str, otherwise: str = "see --help") -> str:
        """Return the sentence about a word that is no flag: the nearest one, or what helps otherwise.

        Raises:
            UserError: it was a flag in an earlier version.
        """
        refuse_removed(word.split("=")[0].removeprefix("--").removeprefix("no-"), word)
        return f"Unknown argument {word}{suggestion(word.split('=')[0], self.flags(), otherwise)}"

    def flags(self) -> list[str]:
        """Return all flags."""
        return [option for action in self._actions for option in action.option_strings]


def _plain(value: Any) -> Any:
    """Return a value with numbers, truth values and arrays of NumPy as those of Python."""
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return value.tolist() if hasattr(value, "tolist") else value


def _scalar(text: str) -> JsonValue:
    """Read a JSON number, string, true, false or null; anything else is the text itself."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return text if isinstance(value, dict | list) or (isinstance(value, float) and not math.isfinite(value)) else value


def flag_of(name: str) -> str:
    """Return the flag of a lower-case name."""
    return "--" + name.replace("_", "-")


def validated(values: dict[str, Any], where: Mapping[str, str]) -> Config:
    """Return the Config of some lower-case names.

    Args:
        values: name -> value.
        where: name -> what a sentence calls it.

    Raises:
        UserError: an unknown name, a wrong type or a value out of range.
    """
    values = without_removed(values, where, str.upper)
    _refuse_unknown(values, where, str.upper)
    try:
        return Config(**values)
    except UserError as error:
        name, _, reason = str(error).partition(": ")
        raise UserError(f"{where.get(name, name)}: {reason}") from None


def _refuse_unknown(values: Mapping[str, Any], where: Mapping[str, str], spell: Callable[[str], str]) -> None:
    """Refuse names that Config does not have, and bools where it has none or nothing else."""
    for name, value in values.items():
        known = Config.model_fields.get(name)
        if known is None:
            names = [spell(field) for field in Config.model_fields]
            hint = suggestion(spell(name), names, "it is not in the list of names")
            raise UserError(f"{where.get(name, name)} is unknown{hint}")
        if isinstance(value, bool) != (known.annotation is bool) and not isinstance(value, str):
            raise UserError(f"{where.get(name, name)}: {value!r} is not {_kind(known.annotation)}.")


def _kind(annotation: Any) -> str:
    return {bool: "True or False", int: "an integer", float: "a number", dict[str, JsonValue]: "a dictionary"}.get(
        annotation, "text"
    )
