/* SPDX-License-Identifier: Apache-2.0 */
/* model.h -- a run with --model, in tokens. */
#ifndef KVRAIL_KVBENCH_REPORT_MODEL_H
#define KVRAIL_KVBENCH_REPORT_MODEL_H

#include <jansson.h>

#include "kvbench/load/bench.h"

void report_model_start(const struct bench *bench);
void report_model(const struct bench *bench);

/* json_model -- the "model" object; the caller's reference. NULL: no memory. */
json_t *json_model(const struct bench *bench);

#endif
