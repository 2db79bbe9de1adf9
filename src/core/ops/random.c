/* random.c: tensors of random numbers. All draw from a generator's Philox sequence: equal state,
 * equal numbers, on any device and with any number of threads. */
#include "random.h"
#include "creation.h"

/* ---- filling --------------------------------------------------------------------------------- */

static sft_generator *generator_of(const sft_value *v) {
    return v->kind == SFT_V_GENERATOR ? v->u.generator : NULL;
}

/* Fills t, of any layout. */
static sft_status fill_random(sft_tensor *t, sft_random_params *p, const sft_value *generator) {
    if (!t->numel) return SFT_OK;
    p->wide = p->kind == SFT_RANDOM_INTEGER ? p->range == 0 || p->range > UINT64_C(1) << 32
                                            : t->dtype == SFT_float64;
    uint64_t per = p->wide ? 2 : 4;
    sft_generator_reserve(generator_of(generator), ((uint64_t)t->numel + per - 1) / per, &p->key,
                          &p->offset);
    if (t->contiguous) return sft_run(SFT_OP__random, &t, 1, p);
    sft_tensor *c = sft_temp(sft_empty(t->shape, t->ndim, (sft_dtype)t->dtype, t->device));
    if (!c) return sft_last_status();
    SFT_TRY(sft_run(SFT_OP__random, &c, 1, p));
    return sft_copy_raw(t, c);
}

static sft_status need_float(const char *op, sft_dtype dtype) {
    if (sft_is_float(dtype)) return SFT_OK;
    return sft_fail(SFT_ERR_ARGUMENT, "%s: the dtype must be floating, got %s", op,
                    sft_dtype_name(dtype));
}

/* rand, randn */
IMPL(rand) {
    sft_dtype dtype = sft_dtype_or(&c->a[2], sft_default_dtype());
    SFT_TRY(need_float(c->info->name, dtype));
    sft_tensor *t =
        sft_temp(sft_empty(c->a[0].u.ints, c->a[0].n, dtype, sft_device_or(&c->a[3], SFT_CPU0)));
    if (!t) return sft_last_status();
    sft_random_params p = {.kind = c->op == SFT_OP_rand ? SFT_RANDOM_UNIFORM : SFT_RANDOM_NORMAL,
                           .b = 1};
    SFT_TRY(fill_random(t, &p, &c->a[1]));
    return sft_created(c, t, &c->a[4]);
}

static sft_tensor *like(const sft_value *self, const sft_value *dtype, const sft_value *device) {
    const sft_tensor *x = self->u.t;
    return sft_temp(sft_empty(x->shape, x->ndim, sft_dtype_or(dtype, (sft_dtype)x->dtype),
                              sft_device_or(device, x->device)));
}

/* rand_like, randn_like */
IMPL(rand_like) {
    sft_tensor *t = like(&c->a[0], &c->a[2], &c->a[3]);
    if (!t) return sft_last_status();
    SFT_TRY(need_float(c->info->name, (sft_dtype)t->dtype));
    sft_random_params p = {
        .kind = c->op == SFT_OP_rand_like ? SFT_RANDOM_UNIFORM : SFT_RANDOM_NORMAL, .b = 1};
    SFT_TRY(fill_random(t, &p, &c->a[1]));
    return sft_created(c, t, &c->a[4]);
}

/* The greatest integer that every integer below or at it has in this dtype. */
static int64_t dtype_top(int dtype) {
    static const int64_t top[SFT_DTYPE_COUNT] = {
        [SFT_bool] = 1,          [SFT_uint8] = 255,
        [SFT_int8] = 127,        [SFT_int16] = 32767,
        [SFT_int32] = INT32_MAX, [SFT_int64] = INT64_MAX,
        [SFT_float16] = 1 << 11, [SFT_bfloat16] = 1 << 8,
        [SFT_float32] = 1 << 24, [SFT_float64] = INT64_C(1) << 53};
    return top[dtype];
}

static sft_status integers(const char *op, sft_tensor *t, int64_t low, int64_t high,
                           const sft_value *generator) {
    if (low >= high)
        return sft_fail(SFT_ERR_ARGUMENT, "%s: 'low' must be below 'high', got %lld and %lld", op,
                        (long long)low, (long long)high);
    int64_t top = dtype_top(t->dtype),
            bottom = t->dtype <= SFT_uint8 ? 0 : -top - !sft_is_float(t->dtype);
    if (low < bottom || high - 1 > top)
        return sft_fail(SFT_ERR_ARGUMENT, "%s: %lld to %lld is more than %s holds (%lld to %lld)",
                        op, (long long)low, (long long)(high - 1),
                        sft_dtype_name((sft_dtype)t->dtype), (long long)bottom, (long long)top);
    sft_random_params p = {
        .kind = SFT_RANDOM_INTEGER, .low = low, .range = (uint64_t)high - (uint64_t)low};
    return fill_random(t, &p, generator);
}

/* randint(high, size), randint(low, high, size) */
static sft_status randint(sft_opctx *c, int64_t low, int64_t high, const sft_value *rest) {
    sft_tensor *t = sft_temp(sft_empty(rest[0].u.ints, rest[0].n, sft_dtype_or(&rest[2], SFT_int64),
                                       sft_device_or(&rest[3], SFT_CPU0)));
    if (!t) return sft_last_status();
    SFT_TRY(integers("randint", t, low, high, &rest[1]));
    return sft_created(c, t, &rest[4]);
}
IMPL(randint) { return randint(c, 0, ARG_I(0), &c->a[1]); }
IMPL(randint_low) { return randint(c, ARG_I(0), ARG_I(1), &c->a[2]); }

static sft_status randint_like(sft_opctx *c, int64_t low, int64_t high, const sft_value *rest) {
    sft_tensor *t = like(&c->a[0], &rest[1], &rest[2]);
    if (!t) return sft_last_status();
    SFT_TRY(integers("randint_like", t, low, high, &rest[0]));
    return sft_created(c, t, &rest[3]);
}
IMPL(randint_like) { return randint_like(c, 0, ARG_I(1), &c->a[2]); }
IMPL(randint_like_low) { return randint_like(c, ARG_I(1), ARG_I(2), &c->a[3]); }

/* A permutation of the n indices. */
IMPL(randperm) {
    int64_t n = ARG_I(0);
    if (n < 0)
        return sft_fail(SFT_ERR_ARGUMENT, "randperm: n must not be negative, got %lld",
                        (long long)n);
    sft_tensor *t = sft_temp(sft_empty(&n, 1, SFT_int64, sft_device_or(&c->a[3], SFT_CPU0)));
    if (!t) return sft_last_status();
    sft_draw_params p = {0};
    sft_generator_reserve(generator_of(&c->a[1]), ((uint64_t)n + 1) / 2, &p.key, &p.offset);
    SFT_TRY(sft_run(SFT_OP_randperm, &t, 1, &p));
    if (!ARG_NONE(2)) t = DO(to, t, sft_v_none(), c->a[2]);
    return t ? sft_created(c, t, &c->a[4]) : sft_last_status();
}

IMPL(multinomial) {
    sft_tensor *x = c->a[0].u.t;
    int64_t m = ARG_I(1), shape[2], n = x->ndim ? x->shape[x->ndim - 1] : 0;
    if (x->ndim < 1 || x->ndim > 2 || !sft_is_float(x->dtype))
        return sft_fail(
            SFT_ERR_ARGUMENT,
            "multinomial: 'self' must be a floating tensor of 1 or 2 dims, got %s of shape %s",
            sft_dtype_name((sft_dtype)x->dtype), SFT_SHAPE(x));
    if (m < 1)
        return sft_fail(SFT_ERR_ARGUMENT, "multinomial: can't draw %lld samples", (long long)m);
    if (!ARG_B(2) && m > n)
        return sft_fail(SFT_ERR_ARGUMENT,
                        "multinomial: can't draw %lld of %lld without replacement; pass "
                        "{replacement = true}",
                        (long long)m, (long long)n);
    shape[0] = x->ndim == 2 ? x->shape[0] : m;
    shape[1] = m;
    sft_tensor *out = sft_temp(sft_empty(shape, x->ndim, SFT_int64, x->device));
    if (!out || !(x = DO(contiguous, x))) return sft_last_status();
    sft_draw_params p = {.replacement = ARG_B(2)};
    uint64_t rows = x->ndim == 2 ? (uint64_t)shape[0] : 1,
             each = p.replacement || m == 1 ? (uint64_t)m : (uint64_t)n;
    sft_generator_reserve(generator_of(&c->a[3]), rows * ((each + 1) / 2), &p.key, &p.offset);
    SFT_TRY(sft_run(SFT_OP_multinomial, (sft_tensor *[]){out, x}, 2, &p));
    return sft_ret(c, out);
}

/* ---- bernoulli, normal ----------------------------------------------------------------------- */

static sft_status check_p(const char *op, double p) {
    if (p >= 0 && p <= 1) return SFT_OK;
    return sft_fail(SFT_ERR_ARGUMENT, "%s: 'p' must lie between 0 and 1, got %g", op, p);
}

/* out = 1 with probabilities `probs`, else 0 */
static sft_status draw_probs(sft_tensor *out, sft_tensor *probs, const sft_value *generator) {
    int64_t shape[SFT_MAX_DIMS];
    const sft_value both[2] = {sft_v_tensor(out), sft_v_tensor(probs)};
    int n = sft_broadcast_shape(both, 2, shape);
    if (n >= 0 && (n != out->ndim || memcmp(shape, out->shape, 8 * (size_t)n) != 0))
        return sft_fail(SFT_ERR_ARGUMENT,
                        "bernoulli: 'p' of shape %s can't be broadcast to the tensor's shape %s",
                        SFT_SHAPE(probs), SFT_SHAPE(out));
    if (n < 0) {
        sft_error_prefix("bernoulli");
        return sft_last_status();
    }
    sft_tensor *low = DO(lt, probs, 0), *high = DO(gt, probs, 1);
    sft_tensor *bad = low && high ? DO(any, DO(logical_or, low, high)) : NULL;
    sft_value v = sft_v_bool(false);
    if (!bad || sft_item(bad, &v) != SFT_OK) return sft_last_status();
    if (v.u.b)
        return sft_fail(SFT_ERR_ARGUMENT, "bernoulli: the probabilities must lie between 0 and 1");
    bool wide = probs->dtype == SFT_float64;
    sft_tensor *u =
        sft_temp(sft_empty(out->shape, out->ndim, wide ? SFT_float64 : SFT_float32, out->device));
    if (!u) return sft_last_status();
    sft_random_params p = {.kind = SFT_RANDOM_UNIFORM, .b = 1};
    SFT_TRY(fill_random(u, &p, generator));
    sft_tensor *hit = DO(lt, u, probs);
    return hit ? sft_copy_raw(out, hit) : sft_last_status();
}

/* Each element is the probability of a 1. */
IMPL(bernoulli) {
    sft_tensor *x = c->a[0].u.t;
    SFT_TRY(need_float("bernoulli", (sft_dtype)x->dtype));
    sft_tensor *out = sft_temp(sft_empty(x->shape, x->ndim, (sft_dtype)x->dtype, x->device));
    if (!out) return sft_last_status();
    SFT_TRY(draw_probs(out, x, &c->a[1]));
    return sft_ret(c, out);
}
/* bernoulli(self, p): like self; bernoulli_(self, p) */
IMPL(bernoulli_p) {
    sft_tensor *x = c->a[0].u.t, *out = x;
    bool inplace = c->op == SFT_OP_bernoulli_;
    if (!inplace) out = sft_temp(sft_empty(x->shape, x->ndim, (sft_dtype)x->dtype, x->device));
    if (!out) return sft_last_status();
    if (c->a[1].kind == SFT_V_TENSOR) {
        SFT_TRY(draw_probs(out, c->a[1].u.t, &c->a[2]));
        return sft_ret(c, out);
    }
    double prob = c->a[1].kind == SFT_V_BOOL ? c->a[1].u.b : ARG_F(1);
    SFT_TRY(check_p(c->info->name, prob));
    sft_random_params p = {.kind = SFT_RANDOM_BERNOULLI, .a = prob};
    SFT_TRY(fill_random(out, &p, &c->a[2]));
    return sft_ret(c, out);
}

static sft_status check_std(const char *op, double std) {
    if (std >= 0) return SFT_OK;
    return sft_fail(SFT_ERR_ARGUMENT, "%s: 'std' must not be negative, got %g", op, std);
}

/* normal(mean, std, size) */
IMPL(normal_size) {
    sft_dtype dtype = sft_dtype_or(&c->a[4], sft_default_dtype());
    SFT_TRY(need_float("normal", dtype));
    SFT_TRY(check_std("normal", ARG_F(1)));
    sft_tensor *t =
        sft_temp(sft_empty(c->a[2].u.ints, c->a[2].n, dtype, sft_device_or(&c->a[5], SFT_CPU0)));
    if (!t) return sft_last_status();
    sft_random_params p = {.kind = SFT_RANDOM_NORMAL, .a = ARG_F(0), .b = ARG_F(1)};
    SFT_TRY(fill_random(t, &p, &c->a[3]));
    return sft_created(c, t, &c->a[6]);
}

/* normal(mean, std): one or both are tensors */
IMPL(normal) {
    int64_t shape[SFT_MAX_DIMS];
    if (c->a[0].kind != SFT_V_TENSOR && c->a[1].kind != SFT_V_TENSOR)
        return sft_fail(
            SFT_ERR_ARGUMENT,
            "normal: of two numbers no size is known; use sft.normal(mean, std, {sizes})");
    if (c->a[1].kind != SFT_V_TENSOR) SFT_TRY(check_std("normal", ARG_F(1)));
    int n = sft_broadcast_shape(c->a, 2, shape);
    if (n < 0) {
        sft_error_prefix("normal");
        return sft_last_status();
    }
    sft_dtype dtype = sft_to_float(sft_result_type(c->a, 2));
    sft_tensor *t = sft_temp(sft_empty(shape, n, dtype, SFT_CPU0));
    if (!t) return sft_last_status();
    sft_random_params p = {.kind = SFT_RANDOM_NORMAL, .b = 1};
    SFT_TRY(fill_random(t, &p, &c->a[2]));
    return sft_ret(c, DO_(add, DO_(mul, t, c->a[1]), c->a[0]));
}

/* ---- in place -------------------------------------------------------------------------------- */

/* normal_, uniform_, log_normal_, cauchy_, exponential_, geometric_ */
IMPL(fill_random) {
    sft_tensor *x = c->a[0].u.t;
    const char *op = c->info->name;
    bool two = c->op != SFT_OP_exponential_ && c->op != SFT_OP_geometric_;
    sft_random_params p = {.a = ARG_F(1), .b = two ? ARG_F(2) : 0};
    if (c->op != SFT_OP_geometric_) SFT_TRY(need_float(op, (sft_dtype)x->dtype));
    switch (c->op) {
    case SFT_OP_uniform_:
        p.kind = SFT_RANDOM_UNIFORM;
        if (!(p.a <= p.b))
            return sft_fail(SFT_ERR_ARGUMENT,
                            "uniform_: 'from' must not be above 'to', got %g and %g", p.a, p.b);
        break;
    case SFT_OP_exponential_:
        p.kind = SFT_RANDOM_EXPONENTIAL;
        if (!(p.a > 0))
            return sft_fail(SFT_ERR_ARGUMENT, "exponential_: 'lambd' must be positive, got %g",
                            p.a);
        break;
    case SFT_OP_geometric_:
        p.kind = SFT_RANDOM_GEOMETRIC;
        if (!(p.a > 0 && p.a < 1))
            return sft_fail(SFT_ERR_ARGUMENT, "geometric_: 'p' must lie between 0 and 1, got %g",
                            p.a);
        p.b = __builtin_log1p(-p.a);
        break;
    case SFT_OP_cauchy_:
        p.kind = SFT_RANDOM_CAUCHY;
        break;
    default:
        p.kind = c->op == SFT_OP_log_normal_ ? SFT_RANDOM_LOG_NORMAL : SFT_RANDOM_NORMAL;
        SFT_TRY(check_std(op, p.b));
    }
    SFT_TRY(fill_random(x, &p, &c->a[two ? 3 : 2]));
    return sft_ret(c, x);
}

/* random_(), random_(to), random_(from, to): from is met, to is not */
IMPL(random_) {
    sft_tensor *x = c->a[0].u.t;
    int64_t low = 0, high;
    if (c->op == SFT_OP_random_from) {
        low = ARG_I(1);
        high = ARG_I(2);
    } else if (c->op == SFT_OP_random_to) {
        high = ARG_I(1);
    } else {
        int64_t top = dtype_top(x->dtype);
        sft_random_params p = {.kind = SFT_RANDOM_INTEGER, .range = (uint64_t)top + 1};
        SFT_TRY(fill_random(x, &p, &c->a[1]));
        return sft_ret(c, x);
    }
    SFT_TRY(integers("random_", x, low, high, &c->a[c->op == SFT_OP_random_from ? 3 : 2]));
    return sft_ret(c, x);
}

/* Kernels with parameters of their own; never called as ops. */
IMPL(kernel_only) {
    return sft_fail(SFT_ERR_UNSUPPORTED, "%s: is a kernel, not an op", c->info->name);
}
