/* test_train.c: trains a small network through sft.h alone, with no Lua linked in: two interleaved
 * spirals, 2-32-2, and the loss has to fall. It doubles as the example of the C API. */
#include <sft.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { POINTS = 200, HIDDEN = 32, STEPS = 300 };

static sft_tensor *must(sft_tensor *t) {
    if (t) return t;
    fprintf(stderr, "test_train: %s\n", sft_last_error());
    exit(1);
}

static void must_ok(sft_status st) {
    if (st == SFT_OK) return;
    fprintf(stderr, "test_train: %s\n", sft_last_error());
    exit(1);
}

static sft_tensor *parameter(int64_t rows, int64_t columns, float scale) {
    int64_t sizes[] = {rows, columns};
    sft_tensor *noise = must(sft_op(randn, sft_v_ints(sizes, columns ? 2 : 1)));
    sft_tensor *p = must(sft_op(mul, noise, scale));
    sft_release(noise);
    must_ok(sft_set_requires_grad(p, true));
    return p;
}

int main(void) {
    static float points[POINTS][2];
    static int64_t classes[POINTS];
    for (int i = 0; i < POINTS; i++) {
        double r = (double)(i / 2) / (POINTS / 2.0), angle = 6 * r + 3.14159265 * (i % 2);
        points[i][0] = (float)(r * cos(angle)), points[i][1] = (float)(r * sin(angle));
        classes[i] = i % 2; /* from C, class labels count from 0 */
    }
    sft_tensor *x = must(sft_from_data(points, (int64_t[]){POINTS, 2}, 2, SFT_float32));
    sft_tensor *y = must(sft_from_data(classes, (int64_t[]){POINTS}, 1, SFT_int64));

    sft_generator_seed(sft_default_generator(), 7);
    sft_tensor *params[] = {parameter(HIDDEN, 2, 1.5f), parameter(HIDDEN, 0, 0.5f),
                            parameter(2, HIDDEN, 0.2f), parameter(2, 0, 0.0f)};
    double first = 0, last = 0;
    for (int step = 0; step < STEPS; step++) {
        sft_tensor *h = must(sft_op(linear, x, params[0], params[1]));
        sft_tensor *a = must(sft_op(tanh, h));
        sft_tensor *logits = must(sft_op(linear, a, params[2], params[3]));
        sft_tensor *loss = must(sft_op(cross_entropy, logits, y));
        must_ok(sft_backward(&loss, NULL, 1, false, false));
        sft_value v;
        must_ok(sft_item(loss, &v));
        if (step == 0) first = v.u.f;
        last = v.u.f;
        sft_release(h), sft_release(a), sft_release(logits), sft_release(loss);

        bool was = sft_set_grad_enabled(false);
        for (int i = 0; i < 4; i++) {
            sft_tensor *move = must(sft_op(mul, sft_grad(params[i]), -0.8));
            sft_tensor *moved = NULL;
            int n = 0;
            must_ok(sft_call(SFT_OP_add, SFT_CALL_INPLACE, SFT_VALUES(params[i], move), 2, NULL,
                             &moved, &n));
            sft_release(move), sft_release(moved);
            must_ok(sft_set_grad(params[i], NULL));
        }
        sft_set_grad_enabled(was);
    }
    for (int i = 0; i < 4; i++) sft_release(params[i]);
    sft_release(x), sft_release(y);
    printf("loss %.4f -> %.4f, %lld tensors left\n", first, last, (long long)sft_live_tensors());
    return last < 0.6 * first && sft_live_tensors() == 0 ? 0 : 1;
}
