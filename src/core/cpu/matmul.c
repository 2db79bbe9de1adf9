/* matmul.c: matrix products of any dtype. float32 and float64 go to sft_gemm() as they lie; half
 * types through float32 copies; integers through a plain loop that wraps. */
#include "kernels.h"
#include "../ops/matmul.h"
#include "lib/gemm.h"

typedef struct side {
    const sft_tensor *t;
    int64_t rs, cs, bs; /* in elements */
} side;

static side side_of(const sft_tensor *t, bool transposed) {
    int n = t->ndim;
    side s = {t, t->strides[n - 2], t->strides[n - 1], n > 2 && t->shape[0] > 1 ? t->strides[0] : 0};
    if (transposed) s.rs = t->strides[n - 1], s.cs = t->strides[n - 2];
    return s;
}

static sft_status float_gemm(const sft_kcall *k, const side *a, const side *b, int64_t batch,
                             int64_t m, int64_t n, int64_t kk) {
    const sft_matmul_params *p = k->params;
    sft_tensor *out = k->t[0], *bias = k->t[3];
    sft_gemm_args g = {.f64 = out->dtype == SFT_float64,
                       .batch = batch,
                       .m = m,
                       .n = n,
                       .k = kk,
                       .a = a->t->data,
                       .a_rs = a->rs,
                       .a_cs = a->cs,
                       .a_bs = a->bs,
                       .b = b->t->data,
                       .b_rs = b->rs,
                       .b_cs = b->cs,
                       .b_bs = b->bs,
                       .c = out->data,
                       .c_rs = n,
                       .c_bs = m * n,
                       .alpha = p->alpha,
                       .beta = p->beta,
                       .bias = bias ? bias->data : NULL};
    if (!sft_gemm(&g)) return sft_fail(SFT_ERR_MEMORY, "out of memory in a matrix product");
    return SFT_OK;
}

static sft_status half_gemm(const sft_kcall *k, const side *a, const side *b, int64_t batch,
                            int64_t m, int64_t n, int64_t kk) {
    sft_tensor *wide[4] = {NULL};
    side ws[2] = {*a, *b};
    sft_status st = SFT_OK;
    for (int i = 0; i < 4 && st == SFT_OK; i++) {
        sft_tensor *t = k->t[i];
        if (!t) continue;
        wide[i] = sft_empty(t->shape, t->ndim, SFT_float32, t->device);
        st = wide[i] ? sft_copy_raw(wide[i], t) : sft_last_status();
    }
    if (st == SFT_OK) {
        const sft_matmul_params *p = k->params;
        ws[0] = side_of(wide[1], false);
        ws[1] = side_of(wide[2], p->b_transposed);
        sft_kcall w = *k;
        w.t = wide;
        st = float_gemm(&w, &ws[0], &ws[1], batch, m, n, kk);
    }
    if (st == SFT_OK) st = sft_copy_raw(k->t[0], wide[0]);
    for (int i = 0; i < 4; i++) sft_release(wide[i]);
    return st;
}

typedef struct int_job {
    const sft_kcall *k;
    const side *a, *b;
    int64_t m, n, kk;
} int_job;

/* One row of the result. */
static void int_rows(void *ctx, int64_t begin, int64_t end) {
    const int_job *j = ctx;
    const sft_matmul_params *p = j->k->params;
    const sft_tensor *out = j->k->t[0], *bias = j->k->t[3];
    const int64_t es = (int64_t)sft_esize(out);
    uint64_t alpha = (uint64_t)(int64_t)p->alpha, beta = (uint64_t)(int64_t)p->beta;
    for (int64_t r = begin; r < end; r++) {
        int64_t q = r / j->m, i = r % j->m;
        char *row = out->data + r * j->n * es;
        const char *a = j->a->t->data + (q * j->a->bs + i * j->a->rs) * es;
        const char *b = j->b->t->data + q * j->b->bs * es;
        for (int64_t c = 0; c < j->n; c++) {
            uint64_t sum = 0;
            for (int64_t l = 0; l < j->kk; l++) {
                int64_t x, y;
                sft_load(SFT_int64, out->dtype, 1, a + l * j->a->cs * es, es, &x);
                sft_load(SFT_int64, out->dtype, 1, b + (l * j->b->rs + c * j->b->cs) * es, es, &y);
                sum += (uint64_t)x * (uint64_t)y;
            }
            sum *= alpha;
            int64_t old;
            if (beta) {
                sft_load(SFT_int64, out->dtype, 1, row + c * es, es, &old);
                sum += beta * (uint64_t)old;
            }
            if (bias) {
                sft_load(SFT_int64, out->dtype, 1, bias->data + c * es, es, &old);
                sum += (uint64_t)old;
            }
            int64_t v = (int64_t)sum;
            sft_store(SFT_int64, out->dtype, 1, &v, row + c * es, es);
        }
    }
}

KERNEL(mm)(const sft_kcall *k) {
    const sft_matmul_params *p = k->params;
    sft_tensor *out = k->t[0];
    side a = side_of(k->t[1], false), b = side_of(k->t[2], p->b_transposed);
    int nd = out->ndim;
    int64_t m = out->shape[nd - 2], n = out->shape[nd - 1], kk = k->t[1]->shape[k->t[1]->ndim - 1];
    int64_t batch = nd > 2 ? out->shape[0] : 1;
    if (out->numel == 0) return SFT_OK;
    switch (out->dtype) {
    case SFT_float32:
    case SFT_float64: return float_gemm(k, &a, &b, batch, m, n, kk);
    case SFT_float16:
    case SFT_bfloat16: return half_gemm(k, &a, &b, batch, m, n, kk);
    default: {
        int_job j = {k, &a, &b, m, n, kk};
        int64_t grain = 20000 / (n * (kk ? kk : 1) + 1) + 1;
        sft_parallel_for(batch * m, grain, int_rows, &j);
        return SFT_OK;
    }
    }
}
