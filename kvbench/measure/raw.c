/* SPDX-License-Identifier: Apache-2.0 */
/* raw.c -- a ring for each loop, and one thread that empties them into a file.
 *
 * A loop writes a record of 64 bytes and its ring's head; the thread looks every few milliseconds, writes the records
 * from the ring, and moves the tail. So an operation costs a cache line, and neither lock nor system call. If a slow
 * disk fills the ring, records are lost, and the caller fails the run. */
#include "kvbench/measure/raw.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "base/base.h"
#include "kvbench/setup/ticker.h"

enum { RING_MIN = 1024, RING_MAX = 65536, MEMORY_BYTES = 64 << 20, WAIT_US = 200 };

#define LOOK_NS 5000000ull

_Static_assert(sizeof(struct bench_raw_op) == 64, "a record is a cache line");
_Static_assert(sizeof(struct bench_raw_head) == 64, "so is the head");
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "records are written as they lie in memory");

struct raw_ring {
	_Alignas(KV_CACHELINE) _Atomic uint64_t head; /* the loop's: records made */
	uint64_t lost;                                /* the loop's */
	_Alignas(KV_CACHELINE) _Atomic uint64_t tail; /* the thread's: records written */
	struct bench_raw_op *op;
};

struct bench_raw {
	int fd, code;
	unsigned rings, size; /* size: records of a ring, a power of two */
	uint64_t start_ns, bytes;
	struct raw_ring *ring;
	struct bench_raw_op *op;
	struct ticker ticker;
};

static int write_all(struct bench_raw *raw, const void *data, size_t len)
{
	const char *at = data;
	while (len > 0) {
		ssize_t n = write(raw->fd, at, len);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		at += n;
		len -= (size_t)n;
		raw->bytes += (uint64_t)n;
	}
	return 0;
}

/* After an error the rings are emptied all the same: nobody waits for room that never comes. */
static void ring_write(struct bench_raw *raw, struct raw_ring *r)
{
	uint64_t tail = atomic_load_explicit(&r->tail, memory_order_relaxed);
	uint64_t head = atomic_load_explicit(&r->head, memory_order_acquire);
	while (tail < head) {
		uint64_t at = tail & (raw->size - 1), n = KV_MIN(head - tail, raw->size - at);
		if (raw->code == 0)
			raw->code = write_all(raw, &r->op[at], n * sizeof(*r->op));
		tail += n;
		atomic_store_explicit(&r->tail, tail, memory_order_release);
	}
}

static void *writer_main(void *arg)
{
	struct bench_raw *raw = arg;
	bool more;
	do {
		more = ticker_wait(&raw->ticker, kv_deadline(kv_clock_now(&kv_clock_monotonic), LOOK_NS));
		for (unsigned i = 0; i < raw->rings; i++)
			ring_write(raw, &raw->ring[i]);
	} while (more);
	return NULL;
}

static void raw_free(struct bench_raw *raw)
{
	free(raw->op);
	free(raw->ring);
	free(raw);
}

static struct bench_raw *raw_make(unsigned rings)
{
	struct bench_raw *raw = calloc(1, sizeof(*raw));
	size_t bytes;
	if (!raw)
		return NULL;
	raw->rings = KV_MAX(rings, 1u);
	raw->size = RING_MAX;
	while (raw->size > RING_MIN && (uint64_t)raw->size * raw->rings * sizeof(*raw->op) > MEMORY_BYTES)
		raw->size /= 2;
	bytes = (size_t)raw->size * raw->rings * sizeof(*raw->op);
	raw->ring = aligned_alloc(KV_CACHELINE, raw->rings * sizeof(*raw->ring));
	raw->op = aligned_alloc(KV_CACHELINE, bytes);
	if (!raw->ring || !raw->op) {
		raw_free(raw);
		return NULL;
	}
	memset(raw->op, 0, bytes);
	memset(raw->ring, 0, raw->rings * sizeof(*raw->ring));
	for (unsigned i = 0; i < raw->rings; i++)
		raw->ring[i].op = raw->op + (size_t)i * raw->size;
	return raw;
}

static int head_write(struct bench_raw *raw, uint64_t seed, uint64_t value_size)
{
	struct bench_raw_head head = {.magic = "kvbraw1\n",
				      .head_bytes = sizeof(head),
				      .record_bytes = sizeof(*raw->op),
				      .seed = seed,
				      .value_size = value_size};
	struct timespec now;
	clock_gettime(CLOCK_REALTIME, &now);
	raw->start_ns = kv_clock_now(&kv_clock_monotonic);
	head.start_unix_ns = (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
	return write_all(raw, &head, sizeof(head));
}

int bench_raw_open(int fd, unsigned rings, uint64_t seed, uint64_t value_size, struct bench_raw **out,
		   struct kv_error *err)
{
	struct bench_raw *raw = raw_make(rings);
	int rc;
	if (!raw)
		return kv_fail(err, -KV_ENOMEM, "no memory for the records of --raw of %u client%s", rings,
			       kv_plural(rings));
	raw->fd = fd;
	rc = head_write(raw, seed, value_size);
	if (rc < 0) {
		raw_free(raw);
		return kv_fail(err, rc, "the file of --raw cannot be written: %s", kv_strerror(rc));
	}
	rc = ticker_start(&raw->ticker, writer_main, raw);
	if (rc == 0) {
		*out = raw;
		return 0;
	}
	raw_free(raw);
	return kv_fail(err, rc, "no thread for --raw: %s", kv_strerror(rc));
}

static bool put(struct bench_raw *raw, struct raw_ring *r, const struct bench_raw_op *op)
{
	uint64_t head = atomic_load_explicit(&r->head, memory_order_relaxed);
	struct bench_raw_op *to = &r->op[head & (raw->size - 1)];
	if (head - atomic_load_explicit(&r->tail, memory_order_acquire) == raw->size)
		return false;
	*to = *op;
	to->due_ns -= raw->start_ns;
	to->start_ns -= raw->start_ns;
	to->end_ns -= raw->start_ns;
	atomic_store_explicit(&r->head, head + 1, memory_order_release);
	return true;
}

void bench_raw_add(struct bench_raw *raw, unsigned ring, const struct bench_raw_op *op)
{
	struct raw_ring *r = &raw->ring[ring % raw->rings];
	if (!put(raw, r, op))
		r->lost++;
}

void bench_raw_add_slow(struct bench_raw *raw, unsigned ring, const struct bench_raw_op *op)
{
	while (!put(raw, &raw->ring[ring % raw->rings], op))
		usleep(WAIT_US);
}

void bench_raw_close(struct bench_raw **raw, struct bench_raw_result *out)
{
	struct bench_raw *r = *raw;
	if (!r)
		return;
	ticker_stop(&r->ticker);
	*out = (struct bench_raw_result){.ran = true, .code = r->code, .bytes = r->bytes};
	for (unsigned i = 0; i < r->rings; i++) {
		out->written += r->ring[i].head;
		out->lost += r->ring[i].lost;
	}
	raw_free(r);
	*raw = NULL;
}
