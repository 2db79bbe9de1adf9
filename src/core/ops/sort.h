/* sort.h: what the checks and the kernels of ordering ops share. */
#ifndef SFT_OPS_SORT_H
#define SFT_OPS_SORT_H

#include "elementwise.h"

/* Outputs values and indices, then the input; all contiguous. The dim has size n in the input and
 * size k in the outputs. */
typedef struct sft_sort_params {
    int64_t outer, n, inner; /* sizes before, of and after the dim */
    int64_t k;               /* topk: how many; kthvalue: which one, from 0 */
    bool descending;
    bool ignore_nan; /* nanmedian */
} sft_sort_params;

/* unique. Outputs of size n: values (unless `width` > 0), where each element's value is among them,
 * how often each occurs; unique_dim: which row is the first of each. `found`: how many. */
typedef struct sft_unique_params {
    int64_t n, width; /* unique_dim: n rows of `width` elements */
    int64_t *found;
} sft_unique_params;

/* Output, sequences [rows, n], values [rows, m] (or one row of sequences for all), sorter or NULL.
 */
typedef struct sft_search_params {
    int64_t rows, n, m;
    bool right, one_sequence;
} sft_search_params;

#endif
