/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_model.c -- a config.json of any bytes: no crash, every refusal explains itself, and what is accepted has bytes
 * that no product overflows. */
#include <stdlib.h>

#include "kvbench/model/model.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(int good)
{
	if (!good)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct model_layout layout = {.tp = 1, .dtype = MODEL_FP32, .block_tokens = MODEL_BLOCK_TOKENS_MAX};
	struct model m;
	struct model_bytes b;
	struct kv_error err = {0};
	if (model_parse((const char *)data, size, "fuzz", &m, &err) < 0) {
		check(err.text[0] != 0);
		return 0;
	}
	check(m.layers >= 1 && m.layers <= MODEL_DIMENSION_MAX && m.sliding_layers <= m.layers);
	check((m.kv_lora_rank > 0) != (m.kv_heads > 0));
	check(model_measure(&m, &layout, &b, &err) == 0);
	check(b.token >= m.layers && b.block / layout.block_tokens == b.token && b.block / b.slices == b.slice);
	return 0;
}
