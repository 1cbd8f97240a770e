"""All settings of a run. Edit this file, or override a name by a flag: GAMMA is --gamma.

Booleans also take --no-..., as in --no-grow-rollouts. Each comment gives the meaning, the values, and the effect of a
larger value. An unknown name, a wrong type or a value out of range ends the command with a sentence.
"""

# -------------------------------------------------------------------------------- settings of the run

# Length of the whole run, in episodes or iterations. Integer >= 1. It counts episodes of the simulator if rollouts grow
# (GROW_ROLLOUTS), and iterations otherwise; 50,000 steps of shorter episodes, or 10,000 of Gymnasium, count as one. It
# includes what a resumed run has already done. More: better policies, proportionally longer.
TRAINING_EPISODES = 50

# Length of the whole run in environment steps, instead of TRAINING_EPISODES. Integer >= 0; 0 for none. It is rounded up
# to whole iterations, or to whole episodes if rollouts grow.
TOTAL_STEPS = 0

# Length of the run, by name. "quick_test" (10 million steps), "standard" (50), "production" (200) and "extended" (500)
# set TRAINING_EPISODES, NUM_EPOCHS (10, 12, 15, 20) and EVALUATE_EVERY (25, 50, 100, 200), unless you changed them;
# NUM_EPOCHS stays 1 if the policy starts from a rule of the simulator. "guide" sets sizes for comparisons of speed,
# "large_transformer" those of a policy with 100 million parameters (docs/how-to/plan-a-gpu-run.md).
PRESET = ""

# Wall-clock limit of the run, over all resumptions. "3h", "90m", "1h30m", "45s", "2.5h"; "" for none. The run stops
# before an iteration that would exceed it. Learning rates fall with the elapsed time, so the result depends on the
# clock. If TRAINING_EPISODES has its default and PRESET is "", only the time ends the run.
TIME_BUDGET = ""

# Seed of all random streams of the run. Integer >= 0. The same seed on the same machine gives the same result.
SEED = 0

# Episodes per evaluation, the same ones for all policies. Integer >= 2. More: narrower intervals; four times as many
# halve them.
EVALUATION_EPISODES = 30

# Iterations between two evaluations during training. Integer >= -1; 0 for none; -1 for about eight evaluations, in at
# most a tenth of the run's steps. They choose the policy of the run and do not change what is learned.
EVALUATE_EVERY = -1

# Folder of the run. "" for runs/<simulator>, runs/<simulator>-2, ...
RUN_DIRECTORY = ""

# Service that shows the run while it trains: "wandb" (Weights & Biases), "mlflow"; "" for none. It needs the service's
# package (docs/how-to/track-a-run.md).
TRACK = ""

# Number of most recent checkpoints to keep, besides the best one. Integer 1 .. 1000. If one is damaged, the previous
# one is used.
CHECKPOINTS_KEPT = 3

# -------------------------------------------------------------------------------- settings of the simulator

# Simulator of the run. "process"; a classic problem: "cartpole", "mountain_car", "mountain_car_continuous", "acrobot",
# "pendulum"; a problem with a known optimum: "base_stock", "criss_cross", "hospital", "lost_sales", "n_model",
# "reentrant_line", "tandem"; "gymnasium:CartPole-v1"; or your own: "package.module:Class", "path/to/file.py:Class".
SIMULATOR = "process"

# Arguments of the simulator's class. JSON values, such as {"max_steps": 1_000}. The flag --simulator-option
# max_steps=1000 sets one; flags replace all values of this file. The process simulator has none.
SIMULATOR_OPTIONS = {}

# Scenario of the process simulator: the bundled "loan_desk", or a JSON file.
SCENARIO = "loan_desk"

# What a policy minimises. Weights of the quantities that the simulator declares, such as "cost=1 tardiness=20"; "" for
# its own objective, which is the mean cycle time of a process. Quantities of a process: cycle_time, tardiness, late,
# cost, waiting, handovers, overtime. Times count in hours, or in time units where these are abstract.
OBJECTIVE = ""

# Due date of each case of a process. "5 days" after its arrival, "gold=1 day, other=5 days" for classes of cases, or
# "column NAME" for a column of EVENT_LOG with dates; "" for those of the scenario. Units: minutes, hours, days, weeks.
DUE = ""

# Costs of a process. The amount that each person costs in an hour at work, such as "40"; "column NAME" for a column of
# EVENT_LOG with that amount of each person; or a CSV file with the columns name and cost: a person or everyone with the
# cost of an hour, or an activity with that of a task. "" for those of the scenario.
COST = ""

# Share of the cases of a process that should be done in time, such as "95% within 10 days". The weight of a missed
# target is found during training; "" for none.
TARGET = ""

# Metric by which the best policy of a process is chosen. Such as "p95_cycle_time", "share_late", "mean_tardiness" or
# "cost_per_case"; "" for that of the objective.
MAIN_METRIC = ""

# How often a case of a class counts in OBJECTIVE, for a process with classes of cases. "gold=3" counts each hour of a
# gold case three times, "gold=3, other=2" those of the other classes twice; "" for the weights of the scenario, once
# without any.
CLASS_WEIGHTS = ""

# When queues of a process serve cases that can no longer be in time. "in turn": in the order of the log; "last": after
# all others, of which the case with the earliest due date goes first; "" for what the scenario says.
LATE_CASES = ""

# When a batch of a process begins. "ready": when it is full, or has waited as long as in the log; "policy": when the
# policy begins it, with the tasks that are waiting; "" for what the scenario says.
BATCH_START = ""

# -------------------------------------------------------------------------------- settings of the event log

# Event log from which the scenario is mined, instead of SCENARIO. CSV, XES, Excel, Parquet or OCEL 2.0; "" for none.
EVENT_LOG = ""

# Columns of a log whose names are not recognised. "case=..,activity=..,resource=..,start=..,end=..". If starts and
# completions have separate rows, add "transition=..,instance=..".
LOG_COLUMNS = ""

# Format of a log's times. "day-first", "month-first", or a format of Python's strptime such as "%d/%m/%Y %H:%M". "" is
# enough for ISO 8601, month names, Unix times, and dates like 31/12/2024.
TIME_FORMAT = ""

# Time zone of the people's working hours. A name such as "Europe/Berlin". Times without a UTC offset are in this zone,
# others are converted. "" takes the times as they are, and rejects a mixture.
TIME_ZONE = ""

# Type of the objects that become cases in an object-centric log. Text, such as "orders" in a log of OCEL 2.0; "" for
# the only type.
OBJECT_TYPE = ""

# Leave out bad rows of a log. True lists them in refused_rows.csv of the run directory; False rejects such a log.
SKIP_BAD_ROWS = False

# Keep repeated events of a log. They have the same case, activity, resource, start and end.
KEEP_DUPLICATES = False

# Arrivals of a mined scenario. "weekly" draws them from the log's rate for each hour of the week, "replay" repeats the
# logged times in every episode.
LOG_ARRIVALS = "weekly"

# Column of a log whose values are classes of cases. Each class has its own routing, delays and queues, and its own
# service times if these differ; numbers become three ranges. "auto" takes the column on which routing or times depend
# most in held-out cases, if there is one; "" for none.
CLASSES = ""

# Largest difference between the simulated process and its log up to which verdicts are given. Number >= 0, a share of
# the log's time or of the cycle time. The mined scenario keeps it.
LOG_TOLERANCE = 0.15

# Largest log, in unpacked bytes. Integer >= 1. The LOG_MAX_... limits protect against small files that become huge. If
# a log exceeds a limit, the error names it. Raise a limit for a genuine log, and lower the limits for logs of unknown
# origin.
LOG_MAX_BYTES = 8_000_000_000

# Largest compression ratio of a gzip file or workbook, once it exceeds 100 MB. Integer >= 1. Logs rarely exceed 50.
LOG_MAX_UNPACKING = 200

# Largest number of bytes by which the process may grow while it reads a log. Integer >= 1. A CSV of 10 million events
# takes about 2 GB, JSON 10 times its size.
LOG_MAX_MEMORY = 4_000_000_000

# Largest number of rows or events of a log. Integer >= 1.
LOG_MAX_ROWS = 50_000_000

# Largest number of columns of a log. Integer >= 1.
LOG_MAX_COLUMNS = 1000

# Largest number of sheets of a workbook. Integer >= 1.
LOG_MAX_SHEETS = 100

# Largest nesting of XML elements, or of JSON lists and objects. Integer >= 10.
LOG_MAX_NESTING = 100

# Longest time without a new row of a log, in seconds. Number >= 0; 0 for no limit.
LOG_MAX_SECONDS = 60.0

# -------------------------------------------------------------------------------- settings of the policy

# Network of the policy. "mlp" sees only the present observation. "mingru" and "transformer" also remember the episode,
# for observations that hide a part of the state (docs/how-to/train-a-policy-with-memory.md). "pointer" scores each
# feasible action by its description, for many people and activities (docs/how-to/train-for-any-number-of-people.md);
# from 1,000 described actions on it is the default.
POLICY_NETWORK = "mlp"

# Rule from which the policy of a process starts. "rule": a rule of thumb that postpones. "fifo", "spt", "logged",
# "atc": like these heuristics; "logged" needs a mined scenario, "atc" an objective with due dates. "auto": tries each
# in short episodes, and keeps the rule unless another is better.
POLICY_PRIOR = "auto"

# Units of each hidden layer of the actor. Integer 1 .. 4096. Twice the width takes about four times as long at every
# step of the simulation.
ACTOR_HIDDEN_SIZE = 128

# Units of each hidden layer of the critic. Integer 1 .. 16384. Larger: slower updates; the simulation is not affected.
CRITIC_HIDDEN_SIZE = 256

# Hidden layers of actor and critic each, or blocks of a transformer. Integer 1 .. 16.
NUM_HIDDEN_LAYERS = 3

# Observations that a transformer sees, including the present one. Integer 1 .. 1024. Larger: looks further back, with
# more memory and time per step. Other networks ignore this and the next two.
CONTEXT_LENGTH = 20

# Attention heads of each block of a transformer. Integer 1 .. 64. Both hidden sizes must be multiples of twice this
# number.
ATTENTION_HEADS = 4

# Hidden units in the perceptron of a transformer's block, as a multiple of the hidden size. Integer 1 .. 8. 4 is usual
# on GPUs; 2 keeps the actor's parameters in a core's cache.
FEED_FORWARD_FACTOR = 2

# Activation of hidden layers. "relu" or "tanh". With relu the compiled actor skips the half of each layer that is zero.
ACTIVATION = "relu"

# Initialisation of the layers: "orthogonal", "xavier_uniform" or "kaiming_uniform".
WEIGHT_INIT = "orthogonal"

# Logarithm of the initial standard deviation of real-valued actions. In units of the scale of the Box. Float -10 .. 5.
# Higher: explores further at first, and more draws are clipped to the bounds.
INITIAL_LOG_STD = 0.0

# Shift and scale observations by running statistics, and clip them to 10 standard deviations; the actor clips them to 4
# if rollouts grow. Indicators (0/1) are not scaled. One instance plays a rollout for the first statistics before the
# first iteration. False: the simulator must scale its observations, which are still clipped to 10.
NORMALISE_OBSERVATIONS = True

# Divide rewards by the running standard deviation of the discounted return. Advantages are normalised anyway, so it
# only helps if returns vary by less than 1e-6, or if float32 cannot represent their squares.
NORMALISE_REWARDS = False

# -------------------------------------------------------------------------------- settings of learning

# Learning algorithm. "ppo" learns from single rollouts with a critic. "grpo" compares rollouts from the same state with
# the same random numbers, without a critic (docs/how-to/choose-an-algorithm.md).
ALGORITHM = "ppo"

# Rollouts in a group of "grpo". Integer 2 .. 1024; NUM_ENVS is a multiple of it. More: less noise in each comparison,
# fewer different states.
GROUP_SIZE = 8

# Divide the advantages of a group by their standard deviation. With True, as in the GRPO paper, groups with small and
# large differences have the same weight.
DIVIDE_BY_GROUP_DEVIATION = False

# Penalty on the reward per unit of log-ratio to the run's initial policy (k1 estimator of the KL divergence). Float >=
# 0; 0 for none. Higher: stays closer to that policy.
KL_COEFFICIENT = 0.0

# Adam's learning rate for the actor. Float > 0, <= 1. Higher: faster and less stable; watch approx_kl and
# clip_fraction. If rollouts grow, a factor of 0.05 .. 10 keeps the divergence of the updates near TARGET_KL.
LEARNING_RATE_ACTOR = 0.0003

# Adam's learning rate for the critic. Float > 0, <= 1. Higher: faster and less stable.
LEARNING_RATE_CRITIC = 0.001

# Epsilon in the denominator of Adam, for the actor. Float > 0, <= 1. Higher, such as 1e-3: smaller steps, and less
# noise from parameters with small gradients.
ADAM_EPSILON_ACTOR = 1e-05

# Schedule of both learning rates. "linear" lets them fall to zero over the run, "constant" keeps them.
LEARNING_RATE_SCHEDULE = "linear"

# Number of decisions that the discount factor looks ahead. Float 2 .. 1e9. Higher: sees later consequences, with more
# noise. With DISCOUNT_PER = "time" it is the time of that many decisions, as measured before the first iteration.
HORIZON = 500.0

# Begin with a tenth of HORIZON, and reach all of it halfway through the run, or after a fifth if values hold together
# for so long. Near consequences are then learned first. It applies if rollouts grow, GAMMA is 0, episodes exceed ten
# times HORIZON, and none is terminated.
GROW_HORIZON = True

# Discount factor, instead of HORIZON. Float 0 .. 1; 0 means exp(-1 / HORIZON) per decision.
GAMMA = 0.0

# Unit of GAMMA and VALUE_LAMBDA. "time": intervals of simulated time, such as the mean time between two arrivals, so
# that waiting cannot make costs look later. "decision": steps; a simulator without a clock always uses it.
DISCOUNT_PER = "time"

# Lambda of generalised advantage estimation, per step. Float 0 .. 1. Higher: less bias from the critic, more variance.
GAE_LAMBDA = 0.8

# Lambda of the critic's targets, per DISCOUNT_PER; where only the critic learns from OUTCOME_DRAWS, as in loaded
# queues, its distance to 1 is a fifth of this one's. Float 0 .. 1. Higher: the critic corrects its errors faster, with
# noisier targets.
VALUE_LAMBDA = 0.95

# PPO's clip range. Float > 0, <= 1. Lower: smaller, safer policy steps.
PPO_CLIP_PARAM = 0.2

# Schedule of the clip range. "linear" lets it fall to zero over the run, "constant" keeps it.
CLIP_RANGE_SCHEDULE = "constant"

# Passes over the samples of an iteration; TARGET_KL may end them early. Integer 1 .. 100. More: learns more from the
# same samples, moves further from the policy that collected them, and takes proportionally longer.
NUM_EPOCHS = 3

# Weight of the entropy bonus at the start; with real-valued actions 0, unless you set another value. Float 0 .. 1.
# Higher: explores longer. 0, also at the end: no bonus, and no ENTROPY_TARGET unless you set one.
ENTROPY_COEFFICIENT = 0.03

# Schedule of the entropy bonus. "linear" moves its weight to ENTROPY_COEFFICIENT_FINAL, "constant" keeps it.
ENTROPY_SCHEDULE = "linear"

# Final weight of the entropy bonus with "linear". Float 0 .. 1.
ENTROPY_COEFFICIENT_FINAL = 0.0

# Initial target for the entropy of a choice of two values, as a share of its maximum; with more values, the others are
# tried as often together. Below the target, the weight of the bonus rises; below half of it, logits become smaller at
# once. The target falls to 0 over the first half of the run, and then the weight falls, too. Float 0 .. 1; 0 for none.
# Higher: the policy explores for longer. Real-valued actions have no target.
ENTROPY_TARGET = 0.5

# Share of the environment instances that repeatedly begin from rarely visited states, rounded to one over a whole
# number. Float 0 .. 0.5; 0 for none. Only if rollouts grow and are collected on the CPU, by a policy without memory.
# Metrics count the other instances.
EXPLORING_STARTS = 0.25

# How often each step is repeated from a copy of its state, with other random numbers: updates, or only their critic,
# learn from means over these outcomes. Integer 0 .. 64; 0 for never. Only if rollouts grow and are collected on the
# CPU, by a policy without memory, and if states take at most 16 KiB and outcomes differ. More: less noise, more
# simulation.
OUTCOME_DRAWS = 16

# Weight of the value loss. Float > 0, <= 10. Actor and critic share no parameters, so it only scales the critic's
# gradient before its clipping.
VALUE_COEFFICIENT = 0.5

# Norm to which the gradients of actor and critic are each clipped. Float > 0.
MAX_GRAD_NORM = 0.5

# Target for the KL divergence of an update, whose epochs end early above 1.5 times this. Float >= 0; 0 for no limit.
TARGET_KL = 0.01

# -------------------------------------------------------------------------------- settings of the machine

# Choose the size of a minibatch. True takes the largest power of two within the samples, free memory and BATCH_SIZE; in
# a short run whose rollouts grow, at most a sixteenth of the first one, unless BATCH_SIZE is set. False takes
# BATCH_SIZE.
AUTO_BATCH_SIZE = True

# Largest minibatch, in samples. Integer 1 .. 65536. Larger: fewer and less noisy steps, better use of a GPU.
BATCH_SIZE = 512

# Device of the updates. "auto" uses an NVIDIA GPU with room for an update, "cpu" never, "cuda" always.
DEVICE = "auto"

# Use BF16 or FP16 for the matrix products of an update on a GPU. BF16 from compute capability 8.0 on, FP16 for 7.x.
USE_MIXED_PRECISION = True

# Number format of an update. "auto" chooses the one of USE_MIXED_PRECISION. "bf16", "fp16" or "fp32" forces one, and is
# an error if the device lacks it. "bf16" on a CPU needs AVX512-BF16 or AMX; it is faster for wide layers, slower for
# small networks (docs/benchmarks.md).
PRECISION = "auto"

# Use TF32 for the remaining float32 matrix products. It needs compute capability 8.0.
USE_TF32 = True

# Recompute activations in the backward pass. More time, less memory, the same results. Smaller microbatches, which the
# plan chooses by itself, save more, so use this only if they do not save enough.
GRADIENT_CHECKPOINTING = False

# Let rollouts grow with the measured gradient noise. They begin with about 8,000 steps (32 instances; 8 of Gymnasium),
# and grow to at most 372,000 steps and 1/160 of the run. It applies if NUM_ENVS and ROLLOUT_STEPS are 0. Episodes older
# than ten times HORIZON are given up, unless any is terminated. Policies that start from a rule have it off.
GROW_ROLLOUTS = True

# Environment instances of an iteration, in parallel on the cores. Integer 0 .. 4096. More: less noise in each update,
# fewer updates for the same data, more memory. 0: 32 if rollouts grow, 1 if ROLLOUT_STEPS is set; otherwise whole
# episodes of about 62,000 steps together if a policy starts from a rule, else 372,000 (fewer if they would take over 4
# GiB).
NUM_ENVS = 0

# Steps of each environment in an iteration. Integer 0 .. 10000000. 0: the measured size if rollouts grow, otherwise one
# whole episode (2048 steps of Gymnasium). Above 0 an instance plays several episodes, and continues the last one in the
# next iteration. More: less noise in each update, fewer updates for the same time.
ROLLOUT_STEPS = 0

# Seconds after which collecting a rollout, or an episode of an evaluation, counts as an endless loop. The run then
# ends; in a rollout it also names the line. Number >= 0; 0 for no limit.
EPISODE_TIME_LIMIT = 3600.0

# Threads of the simulation, at most NUM_ENVS. Integer >= 0; 0 for all usable physical cores. On the CPU the result does
# not depend on them.
SIMULATION_THREADS = 0

# Threads of an update on the CPU. Integer >= 0; 0 for all usable physical cores. The result does not depend on them.
UPDATE_THREADS = 0

# Device of the policy during collection. "cpu": the compiled loop. "gpu": the GPU evaluates the policy for half of all
# instances at once, for wide policies and many instances (docs/how-to/collect-on-a-gpu.md). "torch": the same on the
# CPU, for tests. "auto": the GPU if it is predicted to be 1.5 times as fast. Not for GRPO and Gymnasium. Results differ
# by rounding.
COLLECT_ON = "auto"

# Hosts that play the rollouts, through Ray. "auto" for this machine's cluster, "HOST:PORT" for another one, "local:2"
# for two players here, "" for this process. The results are the same if all processors are of one kind
# (docs/how-to/play-on-several-hosts.md).
ROLLOUT_HOSTS = ""

# Number of updates that the playing policy is behind. Integer 0 or 1. With 1 the next rollout is played during the
# update; this needs rollouts of one size, and memory for two.
ROLLOUT_LAG = 0

# Execution of update steps. "eager": torch, operation by operation; "torch_compile": torch.compile. On the CPU also
# "numba": Longstride's FP32 kernels. On a GPU also "graph" (captured once, one launch per step) and
# "torch_compile_graph". "auto" on the CPU is "numba" for layers of at most 512 units, else "eager"; on a GPU it
# measures. Results differ by rounding.
UPDATE_EXECUTION = "auto"

# -------------------------------------------------------------------------------- settings of the service

# Largest number of open connections per worker of a service. Integer 1 .. 100000. Further ones get status 503.
SERVICE_CONNECTIONS = 1000

# Seconds that a client of a service may take to receive an answer, before its connection is closed. Number > 0.
SERVICE_WRITE_SECONDS = 20.0

# Seconds that a service has for requests in progress after SIGTERM. Number > 0.
SERVICE_DRAIN_SECONDS = 10.0

# Seconds between a service's checks for a newer checkpoint. Number >= 0; 0 loads one only at SIGHUP.
SERVICE_RELOAD_SECONDS = 0.0
