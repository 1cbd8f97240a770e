"""Every knob of a run: edit this file, or override a name by a flag (GAMMA is --gamma; booleans also take --no-...).

Each entry says what it is, its unit and range, and what raising or lowering it does. A name that is not listed here,
a wrong type or a value out of range ends the command with a sentence.
"""

# ---------------------------------------------------------------------------------------------- the run
# Length of the whole run. --resume continues up to this number. Integer >= 1. More: better policies, proportionally
# longer. Where rollouts grow (GROW_ROLLOUTS) it counts episodes of the simulator, or 50,000 steps where those are
# shorter, and 10,000 steps of a Gymnasium environment. Otherwise it counts
# iterations; an iteration collects a rollout and updates the policy.
TRAINING_EPISODES = 50

# How long to train: "quick_test" (10 million steps), "standard" (50), "production" (200) or "extended" (500); empty for
# none. Sets TRAINING_EPISODES, NUM_EPOCHS (10, 12, 15, 20) and EVALUATE_EVERY (25, 50, 100, 200), each only where it
# has its default here and no flag names it. Nothing about the machine depends on it. "guide" sets sizes of learning,
# for comparisons of speed with a GPU: EPISODES_PER_UPDATE 1, NUM_EPOCHS 10, BATCH_SIZE 65536. "large_transformer" sets
# those of a policy of 100 million parameters for a GPU (docs/how-to/train-a-policy-with-memory.md), not run on one yet.
PRESET = ""

# Wall-clock time of the run over all of its resumptions: "3h", "90m", "1h30m", "45s", "2.5h"; empty for no limit. The
# run stops before the iteration that would end after it, and learning rates fall with the time that is over. Where
# TRAINING_EPISODES has its default and no preset is named, the time alone ends the run. What is learned then depends on
# the clock.
TIME_BUDGET = ""

# Names every random stream of the run. Integer >= 0. The same seed on the same machine gives the same result.
SEED = 0

# Episodes of an evaluation, each with its own random streams, the same for all policies. Integer >= 2.
# More: narrower intervals (with the square root).
EVALUATION_EPISODES = 30

# Iterations from one evaluation of the greedy policy to the next; the last iteration is evaluated too. Integer >= -1; 0
# for never. The evaluations play the same episodes each time and choose the best checkpoint, in place of the episodes
# of an iteration; every command then uses that one. More often: closer to the best parameters, more time; what is
# learned stays the same. -1: some twenty short evaluations a run where rollouts grow and the simulator is compiled,
# some ten of a process where the run is long enough, else never.
EVALUATE_EVERY = -1

# Where the run is written. Text; empty for runs/<simulator>, runs/<simulator>-2, ...
RUN_DIRECTORY = ""

# Last checkpoints that stay on the disk, beside the best one. Integer 1 .. 1000. A damaged checkpoint is replaced by
# the one before it, so with 1 there is none to fall back to. More: more room on the disk.
CHECKPOINTS_KEPT = 3

# ---------------------------------------------------------------------------------------------- the simulator
# "process"; a classic control problem: "cartpole", "mountain_car", "mountain_car_continuous", "acrobot", "pendulum";
# a problem with a known optimum: "base_stock", "criss_cross", "hospital", "lost_sales", "n_model", "reentrant_line",
# "tandem"; a Gymnasium environment as "gymnasium:CartPole-v1"; or your own as "package.module:Class" or
# "path/to/file.py:Class".
SIMULATOR = "process"

# Arguments of the simulator's class, for example {"max_steps": 1_000}; JSON values. As flags, one each:
# --simulator-option max_steps=1000. Flags take the place of all that stand here. The process simulator has none.
SIMULATOR_OPTIONS = {}

# Scenario of the process simulator: a bundled name ("loan_desk") or a JSON file.
SCENARIO = "loan_desk"

# Event log (CSV, XES, Excel, Parquet, OCEL 2.0) to mine the scenario from; empty for none. Takes the place of SCENARIO.
EVENT_LOG = ""

# Columns of a log that are not recognised by name: "case=..,activity=..,resource=..,start=..,end=..", and
# "transition=..,instance=.." where starts and completions have rows of their own.
LOG_COLUMNS = ""

# Times of a log that are not recognised: "day-first", "month-first" or a format of Python's strptime,
# "%d/%m/%Y %H:%M". Empty recognises ISO 8601, names of months, seconds since 1970, and 31/12/2024 where some date of
# the log tells the day from the month.
TIME_FORMAT = ""

# Time zone in whose hours the people of a log work, like "Europe/Berlin": that of times without a UTC offset; those
# with one are converted. Empty takes the times as they are, and refuses a mixture.
TIME_ZONE = ""

# Type of the objects of an object-centric log (OCEL 2.0) that become cases, like "orders". Empty: the only one.
OBJECT_TYPE = ""

# True leaves out bad rows of a log and lists them, with reasons, in refused_rows.csv of the run directory. False
# refuses the log.
SKIP_BAD_ROWS = False

# True keeps events of a log that repeat another one: same case, activity, resource, start and end. False drops them.
KEEP_DUPLICATES = False

# Arrivals of a mined scenario: "weekly" draws them with the log's rate for each hour of the week,
# "replay" repeats the logged times in every episode.
LOG_ARRIVALS = "weekly"

# Limits of what reading a log may take; a log beyond one is refused with its name. They protect from files that are
# small and become huge. Raise one for a genuine log, lower them for logs of strangers.
# Bytes of the log, unpacked. Integer >= 1.
LOG_MAX_BYTES = 8_000_000_000

# Bytes that one byte of a gzip file or workbook may become, once there are 100 MB. Integer >= 1. Logs rarely pass 50.
LOG_MAX_UNPACKING = 200

# Bytes by which this process may grow while it reads a log. Integer >= 1. A CSV of 10 million events takes about 2 GB;
# JSON takes most, 10 times its size.
LOG_MAX_MEMORY = 4_000_000_000

# Rows or events, columns, sheets of a workbook. Integers >= 1.
LOG_MAX_ROWS = 50_000_000
LOG_MAX_COLUMNS = 1_000
LOG_MAX_SHEETS = 100

# Elements of XML, or lists and objects of JSON, inside each other. Integer >= 10.
LOG_MAX_NESTING = 100

# Seconds in which no new row is found. Number >= 0; 0 for no limit.
LOG_MAX_SECONDS = 60.0

# ---------------------------------------------------------------------------------------------- the policy
# "mlp" acts on the present observation alone. "mingru" also remembers what it has seen in the episode (minimal gated
# recurrent units); take it where the observation hides a part of the state. It takes three times the parameters and
# trains without compiled kernels. "transformer" sees the last CONTEXT_LENGTH observations of the episode; take it where
# the action depends on which ones they were. docs/how-to/train-a-policy-with-memory.md compares them.
# "pointer" scores each feasible action by its description, for any number of actions: for simulators that describe
# them, as the process does. Take it where pairs of people and activities are many.
POLICY_NETWORK = "mlp"

# Start of the policy of a process: "auto", "rule", "fifo", "spt" or "logged".
# "rule" is a rule of thumb that postpones. The others begin like the heuristics of these names; "logged" needs a
# scenario that was mined from a log. "auto" plays some short episodes with each before training, and keeps the rule
# unless another one is shown to be better.
POLICY_PRIOR = "auto"

# Width of the actor's hidden layers, units. Integer 1 .. 4096.
# The actor runs at every step on the CPU: twice the width is about four times the simulation's inference.
ACTOR_HIDDEN_SIZE = 128

# Width of the critic's hidden layers, units. Integer 1 .. 16384. It only runs in batches on the update's device.
CRITIC_HIDDEN_SIZE = 256

# Hidden layers of actor and critic each, or blocks of a transformer. Integer 1 .. 16.
NUM_HIDDEN_LAYERS = 3

# Observations that a transformer sees: the present one and those before it in the episode. Integer 1 .. 1024; other
# networks ignore it, and the next two. Longer: looks further back; more memory and more time for each step.
CONTEXT_LENGTH = 20

# Heads of a transformer's blocks: how many observations one can look at, each for a reason of its own. Integer 1 .. 64;
# both hidden sizes are multiples of twice as many.
ATTENTION_HEADS = 4

# Hidden units of the perceptron in a transformer's block, as a multiple of the hidden size. Integer 1 .. 8. Higher:
# more can be computed from what was seen; 4 is usual on GPUs, 2 keeps the actor's parameters in a core's cache.
FEED_FORWARD_FACTOR = 2

# "relu" or "tanh". With relu the compiled actor skips the half of each layer that is zero.
ACTIVATION = "relu"

# "orthogonal", "xavier_uniform" or "kaiming_uniform".
WEIGHT_INIT = "orthogonal"

# Logarithm of the initial standard deviation of real-valued actions (Box; other spaces ignore it), before they are
# scaled, and before tanh of a squashed Box. Float -10 .. 5; it is learned from there. 0: as wide as the scale of the
# Box, half of the distance of its bounds. Higher: explores further at first, and more draws end at the bounds.
INITIAL_LOG_STD = 0.0

# Shift and scale each observation by running statistics, kept with the policy. Indicators (0/1) are left alone. One
# instance plays a rollout for them before the first iteration.
# Off: the simulator must scale its observations itself.
NORMALISE_OBSERVATIONS = True

# Divide rewards by the running standard deviation of the discounted return, kept with the checkpoint. Advantages and
# the critic's targets are normalised anyway, so this changes results by rounding only, except where rewards are so
# small (returns that vary by less than 1e-6) or so large that float32 cannot hold their squares.
NORMALISE_REWARDS = False

# ---------------------------------------------------------------------------------------------- learning
# "ppo" learns from single rollouts with a critic. "grpo" compares rollouts that begin in the same state and draw the
# same random numbers of the simulator: an action is worth the rewards after it, less the mean of the others' from the
# same time on. It has no critic. docs/how-to/choose-an-algorithm.md says when to take it.
ALGORITHM = "ppo"

# Rollouts that "grpo" compares with each other. Integer 2 .. 1024; EPISODES_PER_UPDATE is a multiple of it. More: less
# noise in each comparison, fewer different states.
GROUP_SIZE = 8

# Divide the advantages of a group by its standard deviation, as GRPO was published. It gives groups in which little is
# at stake the same weight as those in which much is.
DIVIDE_BY_GROUP_DEVIATION = False

# Reward that a decision loses for each unit of the log-ratio of its probability to that under the policy that the run
# began with (k1 of the KL divergence). Float >= 0; 0 for none. Higher: stays closer to that policy.
KL_COEFFICIENT = 0.0

# Adam's learning rates. Float > 0, <= 1. Higher: faster and less stable; watch approx_kl and clip_fraction. Where
# rollouts grow, a factor of 0.05 .. 10 keeps the divergence of the updates near TARGET_KL.
LEARNING_RATE_ACTOR = 3e-4
LEARNING_RATE_CRITIC = 1e-3

# Epsilon in the denominator of the actor's Adam. Float > 0, <= 1. Adam moves every parameter at the same speed,
# also those whose gradient is nothing but noise; a parameter whose gradient is smaller than this moves more slowly.
# 1e-5: the usual Adam. Higher, as 1e-3: less noise from the many parameters that little is known of, smaller steps.
ADAM_EPSILON_ACTOR = 1e-5

# "linear" lets both learning rates fall to zero over TRAINING_EPISODES, "constant" keeps them.
LEARNING_RATE_SCHEDULE = "linear"

# How far rewards are looked ahead, decisions. Float 2 .. 1e9. Higher: sees later consequences, with more noise. With
# DISCOUNT_PER = "time" it is the time that so many decisions take, as measured before the first iteration.
HORIZON = 500.0

# Begin with a tenth of HORIZON and let it grow to the whole over the first half of the run: what follows soon is
# learned first, and the critic follows. Only where HORIZON decides the discount, rollouts grow (GROW_ROLLOUTS), and
# episodes are longer than ten times HORIZON, as long as none is terminated. Off: the whole horizon from the beginning.
GROW_HORIZON = True

# Discount, in place of HORIZON. Float 0 .. 1; 0 for what HORIZON says, exp(-1 / HORIZON) a decision.
GAMMA = 0.0

# What GAMMA and VALUE_LAMBDA count: "time" counts intervals of simulated time, so that steps which take no time cost
# nothing and waiting cannot be used to make costs look later. An interval is what the simulator names (processes: the
# mean time between two arrivals), else the mean time between two decisions, as measured before the first iteration.
# "decision" counts every step alike. A simulator without a clock always uses "decision".
DISCOUNT_PER = "time"

# Lambda of generalised advantage estimation, per step. Float 0 .. 1. Higher: less bias from the critic, more
# variance.
GAE_LAMBDA = 0.8

# The same lambda for the targets of the critic, for what DISCOUNT_PER names. Float 0 .. 1. Higher: the critic forgets
# its own errors faster, its targets are noisier.
VALUE_LAMBDA = 0.95

# PPO's clip range. Float > 0, <= 1. Lower: smaller, safer policy steps.
PPO_CLIP_PARAM = 0.2

# Passes over an episode's samples. Integer 1 .. 100. More: learns more from each episode, moves further from the
# policy that collected it; the update takes proportionally longer.
NUM_EPOCHS = 3

# Weight of the entropy bonus. Float 0 .. 1. Higher: explores longer.
ENTROPY_COEFFICIENT = 0.03

# "linear" lets the weight of the entropy bonus move to ENTROPY_COEFFICIENT_FINAL over TRAINING_EPISODES, "constant"
# keeps it.
ENTROPY_SCHEDULE = "linear"

# Where "linear" ends. Float 0 .. 1; "constant" ignores it.
ENTROPY_COEFFICIENT_FINAL = 0.0

# Weight of the value loss. Float > 0, <= 10. Actor and critic share no parameters, so this only scales the critic's
# loss before its own gradient clipping.
VALUE_COEFFICIENT = 0.5

# The gradients of actor and critic are each clipped to this norm. Float > 0.
MAX_GRAD_NORM = 0.5

# Stop an update's epochs when their approximate KL divergence exceeds 1.5 times this. Float >= 0; 0 never stops.
TARGET_KL = 0.01

# ---------------------------------------------------------------------------------------------- the update's memory
# Choose the minibatch: the power of two that is at most the number of samples, what free memory holds, and BATCH_SIZE.
# Off: BATCH_SIZE as it stands.
AUTO_BATCH_SIZE = True

# Largest minibatch, samples. Integer 1 .. 65536. Larger: fewer and less noisy steps, better use of a GPU.
BATCH_SIZE = 512

# ---------------------------------------------------------------------------------------------- the machine
# "auto" uses an NVIDIA GPU if there is one with room for an update, "cpu" never, "cuda" insists on one.
DEVICE = "auto"

# Matrix products of an update in BF16 (compute capability 8.0 and above) or FP16 (7.x). Without a GPU: FP32.
USE_MIXED_PRECISION = True

# "auto" chooses the format as above; "bf16", "fp16" or "fp32" insists on one, and is refused where the device has none.
# For comparisons, for learning that breaks down in BF16, and for "bf16" on a CPU that has AVX512-BF16 or AMX: steps are
# then torch's, faster than the compiled ones in FP32 for wide layers, slower for small networks (docs/benchmarks.md).
PRECISION = "auto"

# TF32 for the float32 matrix products that remain (compute capability 8.0 and above).
USE_TF32 = True

# Keep no activations of actor and critic for the backward pass but compute them again: more time, less memory, the same
# results. Smaller microbatches, which a plan takes itself, save more; this is for when those are not small enough.
GRADIENT_CHECKPOINTING = False

# Begin with small rollouts, of about 8,000 steps from 32 instances (8 Gymnasium environments), and let them grow as the
# measured noise of the gradient asks for, up to 372,000 steps and 1/160 of the run. Only where neither
# EPISODES_PER_UPDATE nor ROLLOUT_STEPS is set. Episodes older than ten times HORIZON are given up, as long as none is
# terminated. Off: rollouts of one size, and no factor of the learning rates. A policy that starts from a rule of its
# simulator, as a process does, has it off, and other defaults of learning, which the run prints.
GROW_ROLLOUTS = True

# Environment instances that play in each iteration, with different random streams, in parallel on the cores.
# Integer 0 .. 4096; 0 for 32 where rollouts grow, and one where ROLLOUT_STEPS (below) is set. Where a policy starts
# from a rule, 0 is for as many whole episodes as make about 62,000 steps: one of the loan desk's half years, 12 of a
# process with 5,000 steps. Otherwise they make about 372,000 steps. 0 plays fewer, or a part of an episode, where these
# would take more than 4 GiB of memory with their copy for the update. More: less noise in each update, fewer updates
# for the same data, more memory; the update takes proportionally longer.
EPISODES_PER_UPDATE = 0

# Environment steps of each instance in an iteration. Integer 0 .. 10000000; 0 plays one whole episode of the simulator
# in each instance. Above 0 an instance plays episode after episode, and continues an unfinished one in the next
# iteration: for simulators of short episodes. More: less noise in each update, fewer updates for the same time.
# Gymnasium environments always play like this; where rollouts do not grow, 0 means 2048 for them.
ROLLOUT_STEPS = 0

# Seconds that collecting a rollout may take before it is taken for an endless loop: the run then ends and says where
# the simulator stays. Number >= 0; 0 for no limit.
EPISODE_TIME_LIMIT = 3600.0

# Threads of the simulation (never more than EPISODES_PER_UPDATE) and of a CPU update. Integer >= 0; 0 for all
# physical cores that the affinity and the quota (of a container) leave. On the CPU the result depends on neither.
SIMULATION_THREADS = 0
UPDATE_THREADS = 0

# Where the policy answers while rollouts are collected. "cpu": in the compiled loop, on the cores. "gpu": the cores
# step the simulators, and one forward pass on the GPU answers half of all instances at once, for wide policies and many
# instances (docs/how-to/collect-on-a-gpu.md). "torch": the same with torch on the CPU, for tests. "auto": the GPU where
# it is predicted to be 1.5 times as fast, else "cpu". Not for GRPO and Gymnasium environments. The results differ by
# rounding.
COLLECT_ON = "auto"

# Hosts that play the rollouts, by Ray: "auto" for the cluster that this machine belongs to, "HOST:PORT" for another
# one, "local:2" for two players on this machine, "" for play in this process. Results are those of play in this process
# to the bit, where the hosts' processors are of one kind (docs/how-to/play-on-several-hosts.md).
ROLLOUT_HOSTS = ""

# Updates that the playing policy is behind. Integer 0 or 1. 1: the next rollout is played while this one is learned
# from, with the policy before the update; the ratios of PPO use the probabilities of the policy that played. Needs
# rollouts of one size, and memory for two.
ROLLOUT_LAG = 0

# How the steps of an update run. "eager": by torch, operation by operation. "compile": by torch.compile. On the CPU
# also "compiled": kernels of our own in FP32, which take about 4 s to compile, once. On a GPU also "graph": captured
# once and replayed, one launch a step; "compile_graph": both. "auto" on the CPU is compiled in FP32 for layers of at
# most 512 units, otherwise eager, as measured (docs/benchmarks.md); on a GPU the first update tries them and keeps the
# fastest that computes what eager steps do. The results agree but for rounding: a run can be resumed with another one.
UPDATE_EXECUTION = "auto"

# Connections that each worker of a service keeps open. Integer 1 .. 100000. Further ones get status 503 with
# Retry-After.
SERVICE_CONNECTIONS = 1000

# Seconds that a client of a service may take to receive an answer; then its connection is closed. Number > 0.
SERVICE_WRITE_SECONDS = 20.0

# Seconds that a service has for requests in progress after SIGTERM. Number > 0.
SERVICE_DRAIN_SECONDS = 10.0

# Seconds between the checks whether the run has a newer checkpoint, which the service then loads. Number >= 0; 0 loads
# one only at SIGHUP.
SERVICE_RELOAD_SECONDS = 0.0
