"""The flags of the command line."""

from collections.abc import Sequence
from pathlib import Path

from longstride.config import Parser, add_flags
from longstride.errors import this_command


def make_parser(modes: Sequence[str]) -> Parser:
    """Return the parser of all flags; ``modes`` are the values of ``--mode``."""
    parser = Parser(
        prog=this_command(),
        description="Train and evaluate policies on long, single-stream simulations.",
        allow_abbrev=False,
    )
    parser.add_argument("--mode", choices=modes, default="train", help="what to do (default: train)")
    parser.add_argument("--hyperparameters", type=Path, metavar="FILE", help="in place of hyperparameters.py")
    parser.add_argument("--gpu", metavar="NAME", help="plan: a card of the catalogue (default: this machine)")
    parser.add_argument(
        "--resume",
        action="store_true",
        help="train: continue the run in --run-directory with its own settings; flags win",
    )
    trust = "train --resume, evaluate, replay, doctor: run the simulator's source that the run names, whatever it is"
    parser.add_argument("--trust-simulator", action="store_true", help=trust)
    parser.add_argument("--no-report", action="store_true", help="train, evaluate, whatif: write no report.html")
    parser.add_argument("--verbose", action="store_true", help="train, plan: every choice of the plan with its reason")
    checkpoint = "evaluate, whatif, export, recommend: a run directory or one of its checkpoints"
    parser.add_argument("--checkpoint", metavar="DIR", help=checkpoint)
    parser.add_argument("--output", metavar="DIR", help="export: the folder to write (default: export in the run)")
    formats = ("safetensors", "onnx", "c")
    parser.add_argument("--format", nargs="+", choices=formats, help="export: what to write (default: all)")
    parser.add_argument("--state", metavar="FILE", help="recommend: a state as JSON, or a log of open cases")
    parser.add_argument("--at", metavar="TIME", help="recommend: the present of a log (default: its last time)")
    on_shift = "recommend: the people on shift, for a log (default: as the scenario expects)"
    parser.add_argument("--on-shift", nargs="+", metavar="NAME", help=on_shift)
    parser.add_argument("--json", action="store_true", help="recommend: JSON in place of a table")
    parser.add_argument("--top", type=int, metavar="N", help="recommend: assignments to show, 0 for all (default: 10)")
    parser.add_argument("--serve", type=int, metavar="PORT", help="recommend: the port of a service, 0 for a free one")
    parser.add_argument("--host", metavar="ADDRESS", help="recommend: where to serve (default: this machine alone)")
    parser.add_argument("--token-file", metavar="FILE", help="recommend: the tokens of requests, one a line")
    parser.add_argument("--workers", type=int, metavar="N", help="recommend: processes that answer (default: 1)")
    log = "recommend: file for a line of JSON about each answer, - for the standard output (default: none)"
    parser.add_argument("--access-log", metavar="FILE", help=log)
    iteration = ("--iteration", "--episode")  # the second is the name in earlier versions, for one version
    parser.add_argument(*iteration, type=int, metavar="N", help="replay: the iteration to repeat")
    parser.add_argument("--policy", metavar="NAME,...", help="evaluate, whatif: heuristics to play (default: all)")
    change = 'whatif: a change of the scenario, for example "people +1 analyst"; several flags for several scenarios'
    parser.add_argument("--change", action="append", metavar="TEXT", help=change)
    cost = "whatif: cost of a person for the length of an episode"
    parser.add_argument("--cost-per-person", type=float, metavar="AMOUNT", help=cost)
    parser.add_argument("--a", metavar="FLAGS", help='ab: flags of side A, for example "--no-auto-batch-size"')
    parser.add_argument("--b", metavar="FLAGS", help="ab: flags of side B")
    parser.add_argument("--pairs", type=int, metavar="N", help="ab: runs of each side (default: 5)")
    parser.add_argument("--to", choices=("wandb", "mlflow"), help="track: the service that shows the run")
    parser.add_argument("--follow", action="store_true", help="track: until the training ends")
    _add_sweep_flags(parser)
    add_flags(parser)
    return parser


def _add_sweep_flags(parser: Parser) -> None:
    space = 'sweep: a setting and its values, "learning_rate_actor=1e-4..1e-2 log" or "batch_size=256,512"; repeatable'
    parser.add_argument("--sweep", action="append", metavar="NAME=VALUES", help=space)
    parser.add_argument("--sweep-file", type=Path, metavar="FILE", help="sweep: settings and their values in TOML")
    parser.add_argument("--trials", type=int, metavar="N", help="sweep: trials at most (default: 20)")
    minutes = "sweep: time of all trials and of the comparison at the end (default: no limit)"
    parser.add_argument("--sweep-minutes", type=float, metavar="M", help=minutes)
    objectives = ("score", "score,seconds")
    objective = "sweep: what is searched for (default: score)"
    parser.add_argument("--sweep-objective", choices=objectives, help=objective)
    parser.add_argument("--no-pruning", action="store_true", help="sweep: finish trials below the median too")
    finalists = "sweep: best trials to compare with the base settings at the end (default: 2)"
    parser.add_argument("--finalists", type=int, metavar="N", help=finalists)
    held_out = "sweep: seeds of that comparison, 0 for none (default: 4)"
    parser.add_argument("--held-out-seeds", type=int, metavar="N", help=held_out)
