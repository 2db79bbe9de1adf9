/* test_capi.c: the public C API driven with right and wrong arguments, from one thread and several.
 */
#include <sft.h>
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static const sft_device cpu = {SFT_CPU, 0};

static sft_tensor *range(int64_t n, sft_dtype dtype) {
    sft_tensor *t = sft_empty(&n, 1, dtype, cpu);
    assert_non_null(t);
    for (int64_t i = 0; i < n; i++) {
        if (dtype == SFT_float32) ((float *)sft_data(t))[i] = (float)i;
        if (dtype == SFT_int64) ((int64_t *)sft_data(t))[i] = i;
    }
    return t;
}

/* Every test ends with as many tensors as it began with. */
static int setup(void **state) {
    *state = malloc(sizeof(int64_t));
    *(int64_t *)*state = sft_live_tensors();
    return 0;
}
static int teardown(void **state) {
    int64_t before = *(int64_t *)*state;
    free(*state);
    return sft_live_tensors() == before ? 0 : -1;
}

static void error_state(void **state) {
    (void)state;
    sft_tensor *a = range(3, SFT_float32), *b = range(4, SFT_float32);
    assert_null(sft_op(add, a, b));
    assert_int_equal(sft_last_status(), SFT_ERR_ARGUMENT);
    assert_non_null(strstr(sft_last_error(), "add"));
    assert_non_null(strstr(sft_last_error(), "3"));
    sft_tensor *c = sft_op(add, a, a);
    assert_non_null(c);
    assert_int_equal(sft_set_error(SFT_ERR_IO, "mine"), SFT_ERR_IO);
    assert_string_equal(sft_last_error(), "mine");
    for (int s = SFT_OK; s <= SFT_ERR_CALLBACK; s++)
        assert_true(strlen(sft_status_name((sft_status)s)) > 1);
    sft_release(a), sft_release(b), sft_release(c);
}

static void null_arguments(void **state) {
    (void)state;
    sft_release(NULL);
    assert_null(sft_op(relu, (sft_tensor *)NULL));
    assert_int_not_equal(sft_last_status(), SFT_OK);
    assert_null(sft_op(add, (sft_tensor *)NULL, 1));
    assert_null(sft_op(cat, sft_v_tensors(NULL, 0)));
    sft_tensor *one[] = {NULL};
    assert_null(sft_op(cat, sft_v_tensors(one, 1)));
    sft_value v;
    assert_null(sft_call1(SFT_OP_relu, NULL, 0));
    assert_null(sft_call1((sft_op_id)-1, NULL, 0));
    assert_null(sft_call1(SFT_OP_COUNT, NULL, 0));
    sft_tensor *t = range(3, SFT_float32);
    assert_int_not_equal(sft_item(t, &v), SFT_OK); /* three elements */
    assert_int_not_equal(sft_backward(&t, NULL, 1, false, false), SFT_OK);
    assert_int_not_equal(sft_last_status(), SFT_OK);
    sft_release(t);
}

static void wrong_arguments(void **state) {
    (void)state;
    sft_tensor *t = range(6, SFT_float32), *i = range(3, SFT_int64);
    assert_null(sft_op(sum, t, 3));
    assert_int_equal(sft_last_status(), SFT_ERR_INDEX);
    assert_null(sft_op(sum, t, "two"));
    assert_null(sft_op(relu, 3));
    assert_null(sft_op(relu, "x"));
    assert_null(sft_op(matmul, t, i));
    assert_null(sft_op(reshape, t, sft_v_ints((int64_t[]){4, 2}, 2)));
    assert_null(sft_op(reshape, t, sft_v_ints((int64_t[]){INT64_MAX, INT64_MAX}, 2)));
    assert_null(sft_op(index_select, t, 0, t));
    int64_t huge[] = {INT64_C(1) << 32, INT64_C(1) << 32}, negative[] = {-1};
    assert_null(sft_empty(huge, 2, SFT_float32, cpu));
    assert_null(sft_empty(negative, 1, SFT_float32, cpu));
    assert_null(sft_empty(huge, 17, SFT_float32, cpu));
    assert_null(sft_empty(huge, -1, SFT_float32, cpu));
    assert_null(sft_empty(huge, 1, (sft_dtype)99, cpu));
    assert_null(sft_empty(NULL, 0, SFT_float32, (sft_device){SFT_CUDA, 0}));
    /* too many arguments */
    assert_null(sft_op(relu, t, t));
    sft_device d;
    assert_int_not_equal(sft_device_parse("gpu", &d), SFT_OK);
    assert_int_not_equal(sft_device_parse("cuda:999999999999", &d), SFT_OK);
    assert_int_equal(sft_device_parse("cuda:1", &d), SFT_OK);
    char name[16];
    assert_string_equal(sft_device_name(d, name), "cuda:1");
    assert_int_not_equal(sft_set_requires_grad(i, true), SFT_OK);
    assert_int_not_equal(sft_set_default_dtype(SFT_int32), SFT_OK);
    sft_release(t), sft_release(i);
}

/* Indices from C count from 0, and the messages too. */
static void index_base(void **state) {
    (void)state;
    sft_tensor *t = range(6, SFT_float32);
    sft_tensor *first = sft_op(select, t, 0, 0), *last = sft_op(select, t, 0, 5);
    sft_value v;
    assert_int_equal(sft_item(first, &v), SFT_OK);
    assert_true(v.kind == SFT_V_FLOAT && v.u.f == 0);
    assert_int_equal(sft_item(last, &v), SFT_OK);
    assert_true(v.u.f == 5);
    assert_null(sft_op(select, t, 0, 6));
    sft_tensor *at = sft_op(argmax, t);
    assert_int_equal(sft_item(at, &v), SFT_OK);
    assert_true(v.kind == SFT_V_INT && v.u.i == 5);
    int64_t wrong = 6;
    sft_tensor *index = sft_from_data(&wrong, (int64_t[]){1}, 1, SFT_int64);
    assert_null(sft_op(index_select, t, 0, index));
    assert_non_null(strstr(sft_last_error(), "0 to 5"));
    sft_release(first), sft_release(last), sft_release(at), sft_release(index), sft_release(t);
}

static int freed;
static void on_free(void *user) { freed += *(int *)user; }

static void from_buffer(void **state) {
    (void)state;
    static float data[4] = {1, 2, 3, 4};
    static int weight = 5;
    freed = 0;
    int64_t sizes[] = {2, 2};
    sft_tensor *t = sft_from_buffer(data, sizes, 2, SFT_float32, on_free, &weight);
    assert_ptr_equal(sft_data(t), data);
    sft_tensor *view = sft_op(select, t, 0, 1);
    sft_tensor *twice = sft_op(mul, view, 2);
    sft_release(t);
    assert_int_equal(freed, 0);
    data[2] = 30;
    sft_value v;
    assert_int_equal(sft_get(view, (int64_t[]){0}, &v), SFT_OK);
    assert_true(v.u.f == 30);
    sft_release(view);
    assert_int_equal(freed, 5);
    sft_release(twice);
    /* a graph that saved it keeps it */
    t = sft_from_buffer(data, sizes, 2, SFT_float32, on_free, &weight);
    sft_tensor *w = sft_op(ones, sft_v_ints(sizes, 2));
    assert_int_equal(sft_set_requires_grad(w, true), SFT_OK);
    sft_tensor *y = sft_op(mul, w, t);
    sft_release(t);
    assert_int_equal(freed, 5);
    sft_tensor *s = sft_op(sum, y);
    assert_int_equal(sft_backward(&s, NULL, 1, false, false), SFT_OK);
    assert_true(((float *)sft_data(sft_grad(w)))[2] == 30);
    sft_release(y), sft_release(s), sft_release(w);
    assert_int_equal(freed, 10);
    /* no callback; nothing at all */
    t = sft_from_buffer(data, sizes, 2, SFT_float32, NULL, NULL);
    sft_release(t);
    int64_t none[] = {0};
    t = sft_from_buffer(NULL, none, 1, SFT_float32, NULL, NULL);
    sft_release(t);
}

static void data_and_versions(void **state) {
    (void)state;
    sft_tensor *x = range(3, SFT_float32), *w = range(3, SFT_float32);
    assert_int_equal(sft_set_requires_grad(w, true), SFT_OK);
    sft_tensor *y = sft_op(mul, w, x), *s = sft_op(sum, y);
    uint32_t before = sft_version_of(x);
    ((float *)sft_data(x))[0] = 9;
    sft_bump_version(x);
    assert_true(sft_version_of(x) != before);
    assert_int_equal(sft_backward(&s, NULL, 1, false, false), SFT_ERR_AUTOGRAD);
    assert_non_null(strstr(sft_last_error(), "mul"));
    double out[3];
    assert_int_equal(sft_copy_out(x, SFT_float64, out), SFT_OK);
    assert_true(out[0] == 9 && out[2] == 2);
    char *text = sft_to_text(x);
    assert_non_null(strstr(text, "9."));
    sft_free_text(text);
    assert_true(sft_same_storage(x, x) && !sft_same_storage(x, w));
    assert_string_equal(sft_grad_fn_name(y), "mul");
    assert_null(sft_grad_fn_name(x));
    sft_release(x), sft_release(w), sft_release(y), sft_release(s);
}

static sft_status double_it(void *user, sft_tensor *grad, sft_tensor **replacement) {
    ++*(int *)user;
    *replacement = sft_op(mul, grad, 2);
    return *replacement ? SFT_OK : SFT_ERR_CALLBACK;
}
static sft_status refuse(void *user, sft_tensor *grad, sft_tensor **replacement) {
    (void)user, (void)grad, (void)replacement;
    return sft_set_error(SFT_ERR_CALLBACK, "the host says no");
}

static void hooks(void **state) {
    (void)state;
    int calls = 0;
    int64_t id, id2;
    sft_tensor *w = range(3, SFT_float32);
    sft_set_requires_grad(w, true);
    assert_int_equal(sft_register_hook(w, double_it, &calls, NULL, &id), SFT_OK);
    for (int i = 0; i < 2; i++) {
        sft_tensor *s = sft_op(sum, w);
        assert_int_equal(sft_backward(&s, NULL, 1, false, false), SFT_OK);
        sft_release(s);
    }
    assert_int_equal(calls, 2);
    assert_true(((float *)sft_data(sft_grad(w)))[0] == 4);
    assert_int_equal(sft_register_hook(w, refuse, NULL, NULL, &id2), SFT_OK);
    sft_tensor *s = sft_op(sum, w);
    assert_int_equal(sft_backward(&s, NULL, 1, false, false), SFT_ERR_CALLBACK);
    assert_non_null(strstr(sft_last_error(), "the host says no"));
    sft_release(s);
    assert_int_equal(sft_remove_hook(w, id2), SFT_OK);
    assert_int_equal(sft_remove_hook(w, id), SFT_OK);
    s = sft_op(sum, w);
    assert_int_equal(sft_backward(&s, NULL, 1, false, false), SFT_OK);
    assert_true(((float *)sft_data(sft_grad(w)))[0] == 5);
    sft_release(s), sft_release(w);
}

static sft_status cube_backward(void *user, sft_tensor *const *grads, int n, sft_tensor **gi,
                                int ni) {
    sft_tensor *x = user;
    assert_int_equal(n, 1);
    assert_int_equal(ni, 1);
    sft_tensor *square = sft_op(mul, x, x), *three = sft_op(mul, square, 3);
    gi[0] = sft_op(mul, grads[0], three);
    sft_release(square), sft_release(three);
    return gi[0] ? SFT_OK : sft_last_status();
}
static void release_it(void *user) { sft_release(user); }

static void custom_function(void **state) {
    (void)state;
    sft_tensor *x = range(3, SFT_float32);
    sft_set_requires_grad(x, true);
    bool was = sft_set_grad_enabled(false);
    sft_tensor *y = sft_op(pow, x, 3);
    sft_set_grad_enabled(was);
    assert_int_equal(
        sft_custom_function("cube", &x, 1, &y, 1, cube_backward, sft_retain(x), release_it),
        SFT_OK);
    sft_tensor *s = sft_op(sum, y);
    assert_int_equal(sft_backward(&s, NULL, 1, false, false), SFT_OK);
    assert_true(((float *)sft_data(sft_grad(x)))[2] == 12);
    sft_release(x), sft_release(y), sft_release(s);
}

static void memory(void **state) {
    (void)state;
    sft_memory_stats before, after;
    assert_int_equal(sft_get_memory_stats(cpu, &before), SFT_OK);
    size_t limit = before.allocated + (8 << 20);
    assert_int_equal(sft_set_memory_limit(cpu, limit), SFT_OK);
    int64_t n = 4 << 20;
    assert_null(sft_empty(&n, 1, SFT_float32, cpu));
    assert_int_equal(sft_last_status(), SFT_ERR_MEMORY);
    assert_non_null(strstr(sft_last_error(), "out of memory"));
    n = 1 << 20;
    sft_tensor *t = sft_empty(&n, 1, SFT_float32, cpu);
    assert_non_null(t);
    sft_release(t);
    assert_int_equal(sft_set_memory_limit(cpu, 0), SFT_OK);
    assert_int_equal(sft_get_memory_stats(cpu, &after), SFT_OK);
    assert_int_equal(after.allocated, before.allocated);
    assert_int_not_equal(sft_get_memory_stats((sft_device){SFT_CUDA, 0}, &after), SFT_OK);
    n = 100;
    sft_fail_alloc_after(1);
    assert_null(sft_empty(&n, 1, SFT_float32, cpu));
    assert_int_equal(sft_last_status(), SFT_ERR_MEMORY);
    sft_fail_alloc_after(-1);
}

static void lists(void **state) {
    (void)state;
    sft_tensor *t = range(7, SFT_float32), **list = NULL;
    int n = 0;
    sft_value args[] = {sft_v_tensor(t), sft_v_int(3)};
    assert_int_equal(sft_call_list(SFT_OP_split, 0, args, 2, &list, &n), SFT_OK);
    assert_int_equal(n, 3);
    assert_int_equal(sft_numel(list[2]), 1);
    sft_free_list(list, n);
    args[1] = sft_v_int(-1);
    assert_int_not_equal(sft_call_list(SFT_OP_split, 0, args, 2, &list, &n), SFT_OK);
    sft_release(t);
}

static void op_table(void **state) {
    (void)state;
    for (int i = 0; i < SFT_OP_COUNT; i++) {
        const sft_op_info *info = sft_op_get_info((sft_op_id)i);
        assert_non_null(info);
        assert_true(strlen(info->name) > 0 && info->nparams <= SFT_MAX_PARAMS);
    }
    for (int a = 0; a < SFT_DTYPE_COUNT; a++)
        for (int b = 0; b < SFT_DTYPE_COUNT; b++)
            assert_int_equal(sft_promote_types((sft_dtype)a, (sft_dtype)b),
                             sft_promote_types((sft_dtype)b, (sft_dtype)a));
}

/* Every op with no arguments, with one of each kind, and with the wrong number of them. */
static void all_ops_bad_arguments(void **state) {
    (void)state;
    sft_tensor *t = range(4, SFT_float32), *none = NULL;
    sft_value kinds[] = {sft_v_none(),           sft_v_tensor(t),         sft_v_int(INT64_MIN),
                         sft_v_float(NAN),       sft_v_bool(true),        sft_v_str("x"),
                         sft_v_dtype(SFT_bool),  sft_v_device(cpu),       sft_v_ints(NULL, 0),
                         sft_v_tensors(NULL, 0), sft_v_tensors(&none, 1), sft_v_generator(NULL),
                         sft_v_tensor(NULL)};
    enum { KINDS = sizeof kinds / sizeof *kinds, MOST = SFT_MAX_PARAMS + 1 };
    sft_set_memory_limit(cpu, 64 << 20);
    for (int op = 0; op < SFT_OP_COUNT; op++) {
        for (int k = 0; k < KINDS; k++) {
            for (int n = 0; n <= MOST; n += n < 4 ? 1 : 6) {
                sft_value args[MOST];
                for (int i = 0; i < n; i++) args[i] = kinds[i % 2 ? k : i == 0 ? 1 : k];
                if (n && k >= KINDS / 2) args[0] = kinds[k];
                if (sft_op_get_info((sft_op_id)op)->nout == 0) {
                    sft_tensor **list = NULL;
                    int nout = 0;
                    if (sft_call_list((sft_op_id)op, 0, args, n, &list, &nout) == SFT_OK)
                        sft_free_list(list, nout);
                } else {
                    sft_tensor *out[SFT_MAX_OUTPUTS];
                    int nout = 0;
                    if (sft_call((sft_op_id)op, 0, args, n, NULL, out, &nout) == SFT_OK)
                        for (int i = 0; i < nout; i++) sft_release(out[i]);
                    else
                        assert_true(strlen(sft_last_error()) > 0);
                }
            }
        }
    }
    sft_set_memory_limit(cpu, 0);
    sft_release(t);
}

/* ---- threads ---- */

enum { THREADS = 8, ROUNDS = 60 };
static sft_tensor *shared_weight;

static void *worker(void *arg) {
    long me = (long)(intptr_t)arg;
    sft_tensor *w = sft_op(mul, shared_weight, 1.0);
    for (int i = 0; i < ROUNDS && w; i++) {
        sft_tensor *leaf = sft_op(detach, w);
        sft_set_requires_grad(leaf, true);
        sft_tensor *y = sft_op(tanh, leaf), *z = sft_op(mul, y, y), *s = sft_op(sum, z);
        bool ok = sft_backward(&s, NULL, 1, false, false) == SFT_OK;
        /* an error in one thread is nobody else's */
        if (i % 7 == me % 7 && (sft_op(sum, y, 9) || sft_last_status() != SFT_ERR_INDEX))
            ok = false;
        sft_tensor *step = ok ? sft_op(mul, sft_grad(leaf), -0.1) : NULL;
        sft_tensor *next = step ? sft_op(add, w, step) : NULL;
        sft_release(step), sft_release(leaf), sft_release(y), sft_release(z), sft_release(s);
        sft_release(w);
        w = next;
    }
    return w;
}

static void threads(void **state) {
    (void)state;
    shared_weight = range(1000, SFT_float32);
    pthread_t t[THREADS];
    sft_tensor *result[THREADS];
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&t[i], NULL, worker, (void *)(intptr_t)i), 0);
    for (int i = 0; i < THREADS; i++) pthread_join(t[i], (void **)&result[i]);
    for (int i = 0; i < THREADS; i++) {
        assert_non_null(result[i]);
        assert_memory_equal(sft_data(result[i]), sft_data(result[0]), 1000 * sizeof(float));
    }
    for (int i = 0; i < THREADS; i++) sft_release(result[i]);
    sft_release(shared_weight);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(error_state, setup, teardown),
        cmocka_unit_test_setup_teardown(null_arguments, setup, teardown),
        cmocka_unit_test_setup_teardown(wrong_arguments, setup, teardown),
        cmocka_unit_test_setup_teardown(index_base, setup, teardown),
        cmocka_unit_test_setup_teardown(from_buffer, setup, teardown),
        cmocka_unit_test_setup_teardown(data_and_versions, setup, teardown),
        cmocka_unit_test_setup_teardown(hooks, setup, teardown),
        cmocka_unit_test_setup_teardown(custom_function, setup, teardown),
        cmocka_unit_test_setup_teardown(memory, setup, teardown),
        cmocka_unit_test_setup_teardown(lists, setup, teardown),
        cmocka_unit_test_setup_teardown(op_table, setup, teardown),
        cmocka_unit_test_setup_teardown(all_ops_bad_arguments, setup, teardown),
        cmocka_unit_test_setup_teardown(threads, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
