"""Draws of actions in C: text for all policies, without the mathematical library."""

UNIFORM = """\
/* A number between 0 and 1, both excluded: the next of the random stream (SplitMix64, Steele et al. 2014). */
static double policy_uniform(unsigned long long *random)
{
    unsigned long long z = *random += 0x9E3779B97F4A7C15ULL;

    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
    return ((double)((z ^ (z >> 31)) >> 11) + 0.5) / 9007199254740992.0;
}

/* exp(x) for x <= 0: the Taylor series of x / 1024, squared ten times. */
static double policy_exponential(double x)
{
    double y = (x < -700.0 ? -700.0 : x) / 1024.0, result = 1.0;
    int i;

    for (i = 12; i > 0; i--)
        result = 1.0 + result * y / i;
    for (i = 0; i < 10; i++)
        result *= result;
    return result;
}"""

DRAWN = """\
/* An allowed value, drawn with the probabilities softmax(logits). */
static int policy_drawn(const float *logits, const unsigned char *mask, int n, unsigned long long *random)
{
    int best = policy_best(logits, mask, n), i;
    double highest = logits[best], left = 0.0;

    for (i = 0; i < n; i++)
        if (!mask || mask[i])
            left += policy_exponential(logits[i] - highest);
    left *= policy_uniform(random);
    for (i = 0; i < n; i++)
        if (!mask || mask[i]) {
            left -= policy_exponential(logits[i] - highest);
            if (left <= 0.0)
                return i;
        }
    return best;
}"""

NORMAL = """\
/* A standard normal number, by the ratio of uniforms (Kinderman and Monahan 1977). */
static double policy_normal(unsigned long long *random)
{
    double u, x;

    do {
        u = policy_uniform(random);
        x = 1.7155277699214135 * (policy_uniform(random) - 0.5) / u;
    } while (u * u > policy_exponential(-0.5 * x * x));
    return x;
}"""

ADD_NOISE = """\
for (i = 0; i < POLICY_ACTION_SIZE; i++)
        outputs[i] = (float)((double)outputs[i] + (double)policy_deviation[i] * policy_normal(random));
    """
