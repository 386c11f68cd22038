/* SPDX-License-Identifier: Apache-2.0 */
/* figures.h -- which charts a result gives, each from its JSON. */
#ifndef KVRAIL_KVBENCH_REPORT_FIGURES_H
#define KVRAIL_KVBENCH_REPORT_FIGURES_H

#include "kvbench/report/document.h"

enum figure {
	FIGURE_PERCENTILES,
	FIGURE_HISTOGRAM,
	FIGURE_THROUGHPUT,
	FIGURE_LATENCY,
	FIGURE_BREAKDOWN,
	FIGURE_SCALING,
	FIGURES
};

/* Names, as --figure takes them; ends with NULL. */
extern const char *const figure_names[FIGURES + 1];

/* figure_write -- one <svg>. Returns 0, or -KV_ENOTFOUND with *err saying what the result lacks: then nothing was
 * written. */
int figure_write(FILE *out, const json_t *doc, enum figure figure, bool alone, struct kv_error *err);

#endif
