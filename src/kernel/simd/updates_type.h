/* The loops of updates.c for the element type T; included there once per type. */

/* h = clip(scale * g) + decay * w. */
LK_INLINE T NAME(followed)(T g, T w, T scale, T limit, T decay)
{
    T h = scale * g;
    h = h < -limit ? -limit : h;
    h = h > limit ? limit : h;
    return h + decay * w;
}

#define UPDATE(rule, body)                                                                      \
    static void NAME(rule)(const lk__update *u, int64_t first, int64_t last)                    \
    {                                                                                           \
        T *restrict w = (T *)u->w + first, *restrict m = u->m ? (T *)u->m + first : NULL,       \
                    *restrict v = u->v ? (T *)u->v + first : NULL;                              \
        const T *restrict g = u->g ? (const T *)u->g + first : NULL;                            \
        const T scale = (T)u->scale, limit = (T)u->limit, decay = (T)u->decay, mu = (T)u->mu,   \
                rate = (T)u->rate, rate2 = (T)u->rate2, b1 = (T)u->b1, c1 = (T)u->c1,           \
                b2 = (T)u->b2, c2 = (T)u->c2, root = (T)u->root, eps = (T)u->eps,               \
                keep = (T)u->keep;                                                              \
        (void)m, (void)v, (void)g, (void)scale, (void)limit, (void)decay, (void)mu, (void)rate; \
        (void)rate2, (void)b1, (void)c1, (void)b2, (void)c2, (void)root, (void)eps, (void)keep; \
        for (int64_t i = 0; i < last - first; i++) {                                            \
            body                                                                                \
        }                                                                                       \
    }

#define H T h = NAME(followed)(g[i], w[i], scale, limit, decay);
#define MEAN m[i] = b1 * m[i] + c1 * h;
#define SQUARES v[i] = b2 * v[i] + c2 * (h * h);

UPDATE(sgd, H w[i] = w[i] - rate * h;)
UPDATE(momentum, H m[i] = mu * m[i] + h; w[i] = w[i] - rate * m[i];)
UPDATE(nesterov, H m[i] = mu * m[i] + h; w[i] = w[i] - rate * (h + mu * m[i]);)
UPDATE(adam, H MEAN SQUARES w[i] = keep * w[i] - rate * m[i] / (SQRT(v[i]) * root + eps);)
UPDATE(adamax, H MEAN T a = h < 0 ? -h : h; T b = b2 * v[i]; v[i] = b > a ? b : a;
       w[i] = w[i] - rate * m[i] / (v[i] + eps);)
UPDATE(nadam, H MEAN SQUARES w[i] = w[i] - (rate * h + rate2 * m[i]) / (SQRT(v[i]) * root + eps);)
UPDATE(rmsprop, H SQUARES w[i] = w[i] - rate * h / (SQRT(v[i]) + eps);)
UPDATE(rmsprop_momentum, H SQUARES m[i] = mu * m[i] + h / (SQRT(v[i]) + eps);
       w[i] = w[i] - rate * m[i];)
UPDATE(adagrad, H v[i] = v[i] + h * h; w[i] = w[i] - rate * h / (SQRT(v[i]) + eps);)
UPDATE(adadelta, H SQUARES T d = h * SQRT(m[i] + eps) / SQRT(v[i] + eps);
       m[i] = b2 * m[i] + c2 * (d * d); w[i] = w[i] - rate * d;)
UPDATE(follow, H m[i] = h;)
UPDATE(step, w[i] = w[i] + rate * m[i];)

#undef SQUARES
#undef MEAN
#undef H
#undef UPDATE
