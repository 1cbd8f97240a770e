"""Constants in C, and text in C for all policies; ``c_source.py`` replaces words in capitals."""

import numpy as np

_NUMBERS_A_LINE = 6


def array_text(name: str, values: np.ndarray, comment: str) -> str:
    """Return an array of constants, with a comment above it."""
    texts = [number_text(value) for value in values]
    rows = (", ".join(texts[i : i + _NUMBERS_A_LINE]) for i in range(0, len(texts), _NUMBERS_A_LINE))
    body = ",\n".join(f"    {row}" for row in rows)
    return f"/* {comment} */\nstatic const float {name}[{len(texts)}] = {{\n{body}\n}};"


def number_text(value: np.float32) -> str:
    """Return a constant of C that is this float32 to the bit: nine digits tell all of them apart."""
    text = f"{float(value):.9g}"
    return f"{text}f" if "." in text or "e" in text else f"{text}.0f"


INTERFACE = """\
/*
 * policy.c is the whole policy in C99: no library, no memory from the heap, nothing to set up. It keeps nothing between
 * calls, so that any number of threads may call it. policy.h has its declarations, for other files.
 *
 * Do not compile with -ffast-math: what is not a number would no longer be found.
 */
#ifndef POLICY_H
#define POLICY_H

DEFINES

#define POLICY_OK 0
#define POLICY_NOT_FINITE 1 /* an input or an output is NaN or infinite */
#define POLICY_EMPTY_MASK 2 /* the mask allows no value of a choice */

#ifdef __cplusplus
extern "C" {
#endif

/* Where the policy comes from, and what the numbers of an array mean, where the simulator names them. UTF-8. */
extern const char policy_title[];
NAMES

/*
 * One step: writes the OUTPUTS and returns POLICY_OK, or says what is wrong with the inputs, which then change nothing.
 *
 * observation: POLICY_OBSERVATION_SIZE numbers, as the simulator writes them, not scaled.
 * mask:        POLICY_OUTPUT_SIZE bytes, 0 where forbidden; NULL allows all. Not used where the action is real numbers.
 * features:    POLICY_OUTPUT_SIZE rows of POLICY_FEATURE_SIZE numbers; NULL where that size is 0.
 * state:       POLICY_STATE_SIZE numbers, all 0 when an episode begins, which each step replaces; NULL where that is 0.
 * outputs:     POLICY_OUTPUT_SIZE OUTPUTS; of a forbidden action -1e30.
 */
int policy_step(const float *observation, const unsigned char *mask, const float *features, float *state,
                float *outputs);

/* One step that ends with the most likely action: POLICY_ACTION_SIZE values. The rest is as above. */
int policy_act(const float *observation, const unsigned char *mask, const float *features, float *state,
               KIND *action);

/*
 * One step that ends with a drawn action. Better than policy_act if POLICY_DRAWS is 1.
 *
 * random: the state of the random stream, any seed at first, which each call replaces. Threads need one each.
 */
int policy_draw(const float *observation, const unsigned char *mask, const float *features, float *state,
                unsigned long long *random, KIND *action);

#ifdef __cplusplus
}
#endif

#endif"""

TANH = """\
/* The hyperbolic tangent to four units in the last place, by the rational function of Eigen and XLA. */
static float policy_tanh(float v)
{
    float x = v < -7.90531110763549805f ? -7.90531110763549805f : v > 7.90531110763549805f ? 7.90531110763549805f : v;
    float s = x * x;
    float p = s * -2.76076847742355e-16f + 2.00018790482477e-13f;
    float q = s * 1.19825839466702e-06f + 1.18534705686654e-04f;

    p = s * p + -8.60467152213735e-11f;
    p = s * p + 5.12229709037114e-08f;
    p = s * p + 1.48572235717979e-05f;
    p = s * p + 6.37261928875436e-04f;
    p = s * p + 4.89352455891786e-03f;
    q = s * q + 2.26843463243900e-03f;
    q = s * q + 4.89352518554385e-03f;
    return x * p / q;
}"""

LINEAR = """\
/* y = bias + x * weight; a weight has a row for each input. Inputs that are 0 cost nothing. */
static void policy_linear(const float *weight, const float *bias, const float *x, int inputs, int outputs,
                          float *restrict y)
{
    int i, j;

    for (j = 0; j < outputs; j++)
        y[j] = bias[j];
    for (i = 0; i < inputs; i++) {
        const float *row = weight + (long)i * outputs;
        float value = x[i];

        if (value != 0.0f)
            for (j = 0; j < outputs; j++)
                y[j] += value * row[j];
    }
}"""

FINITE = """\
static int policy_finite(const float *values, int n)
{
    int i;

    for (i = 0; i < n; i++)
        if (!(values[i] >= -3.40282347e38f && values[i] <= 3.40282347e38f))
            return 0;
    return 1;
}"""

ALLOWS = """\
static int policy_allows(const unsigned char *mask, int n)
{
    int i;

    for (i = 0; i < n; i++)
        if (mask[i])
            return 1;
    return 0;
}"""

STEP = """\
int policy_step(const float *observation, const unsigned char *mask, const float *features, float *state,
                float *outputs)
{
    float x[POLICY_OBSERVATION_SIZE];
    DECLARED

    CHECKS
    for (i = 0; i < POLICY_OBSERVATION_SIZE; i++) {
        float scaled = (observation[i] - policy_observation_mean[i]) * policy_observation_scale[i];

        x[i] = scaled < -LIMIT ? -LIMIT : scaled > LIMIT ? LIMIT : scaled;
    }
    policy_network(x, state, outputs);
    AFTER
    return policy_finite(outputs, POLICY_OUTPUT_SIZE) ? POLICY_OK : POLICY_NOT_FINITE;
}"""

ACT = """\
int NAME(const float *observation, const unsigned char *mask, const float *features, float *state,
INDENTKIND *action)
{
    float outputs[POLICY_OUTPUT_SIZE];
    int status = policy_step(observation, mask, features, state, outputs);
    DECLARED

    if (status != POLICY_OK)
        return status;
    CHOOSE
    return POLICY_OK;
}"""

BEST = """\
/* The allowed value with the largest logit, the first of equals. */
static int policy_best(const float *logits, const unsigned char *mask, int n)
{
    int best = -1, i;

    for (i = 0; i < n; i++)
        if ((!mask || mask[i]) && (best < 0 || logits[i] > logits[best]))
            best = i;
    return best;
}"""

CLIPPED = """\
for (i = 0; i < POLICY_ACTION_SIZE; i++) {
        float value = (float)((double)policy_centre[i] + (double)policy_scale[i] * (double)outputs[i]);

        action[i] = value < policy_low[i] ? policy_low[i] : value > policy_high[i] ? policy_high[i] : value;
    }"""

SQUASHED = """\
for (i = 0; i < POLICY_ACTION_SIZE; i++) {
        double low = policy_low[i], high = policy_high[i];
        float value = (float)(0.5 * (low + high) + 0.5 * (high - low) * (double)policy_tanh(outputs[i]));

        action[i] = value < policy_low[i] ? policy_low[i] : value > policy_high[i] ? policy_high[i] : value;
    }"""
