/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_trace.c -- the trace reader on any bytes: no crash, every refusal explains itself and stays, and what is
 * accepted keeps its bounds. */
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "kvbench/load/trace.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(int good)
{
	if (!good)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct trace_reader *reader;
	struct trace_request q;
	struct kv_error err = {0};
	uint64_t line = 0;
	int in, rc;
	if (size == 0)
		return 0;
	in = memfd_create("fuzz", MFD_CLOEXEC);
	check(in >= 0 && write(in, data, size) == (ssize_t)size && lseek(in, 0, SEEK_SET) == 0);
	check(trace_open_stream(in, "fuzz", &reader, &err) == 0);
	while ((rc = trace_next(reader, &q, &err)) > 0) {
		check(q.line > line && q.num_ids <= TRACE_IDS_MAX && q.timestamp_ms >= -1e15 && q.timestamp_ms <= 1e15);
		line = q.line;
	}
	check(rc == 0 || err.text[0] != 0);
	check(trace_next(reader, &q, &err) == rc);
	trace_close(&reader);
	return 0;
}
