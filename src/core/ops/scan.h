/* scan.h: what the checks and the kernels of cumulative ops share. */
#ifndef SFT_OPS_SCAN_H
#define SFT_OPS_SCAN_H

#include "elementwise.h"

/* Kernel arguments: outputs, then inputs, all contiguous; float32, float64 or int64. */
typedef struct sft_scan_params {
    int64_t outer, n, inner; /* sizes before, of and after the dim */
    bool reverse;            /* from the end of the dim */
} sft_scan_params;

#endif
