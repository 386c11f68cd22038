/* SPDX-License-Identifier: Apache-2.0 */
/* end.h -- one of the two ends: an engine, memory that the other end reads and writes, and the socket between the two
 * processes. Over the socket they exchange addresses and agree on the next phase. One thread at a time. */
#ifndef KVRAIL_KVBENCH_FABRIC_END_H
#define KVRAIL_KVBENCH_FABRIC_END_H

#include "host/host.h"
#include "kvbench/fabric/fabric.h"

/* The first message of each end: plain data of one program. Both machines have its version and byte order. */
struct end_hello {
	struct te_address address;
	uint64_t len, base, key;
	uint64_t chunk;
	uint8_t virt;
};

enum { END_BURSTS = 16 };

enum end_mode {
	END_QUIET,       /* answer nothing */
	END_ECHO,        /* send each message back */
	END_ECHO_WRITES, /* when `chunks` immediates are here, write `size` bytes back */
	END_SINK,        /* a message has the number of immediates to wait for; answer it then */
	END_REST         /* do not poll until the next phase */
};

/* The next phase. The responder answers with a byte when it is ready. */
struct end_phase {
	uint32_t mode, chunks;
	uint64_t size;
};

struct end_op;

struct end {
	struct te *te;
	struct te_peer *peer;
	struct te_info info;
	struct kv_area area;
	struct te_region *region;
	struct te_remote remote; /* of the other end */
	struct te_key key;
	struct end_hello theirs;
	struct kv_log log;
	struct end_op *op;
	int fd;
	int broken;
	/* Arrivals. */
	uint64_t messages, imms;
	uint64_t begun, completed; /* our transfers */
	uint8_t last[KV_MSG_MAX];
	size_t last_len;
};

/* end_open -- open engine and memory of options->size_max and span, and exchange hellos over fd. interrupted: gives up
 * when it is not 0. Owner: end_close frees all of it, also after an error. fd stays the caller's. */
int end_open(struct end *end, const struct fabric_options *options, int fd, int (*interrupted)(void),
	     struct kv_error *err);
void end_close(struct end *end);

/* end_chunks -- operations of `chunk` bytes for `size` bytes. */
static inline uint64_t end_chunks(uint64_t size, uint64_t chunk)
{
	return (size + chunk - 1) / chunk;
}

/* The first half of the memory is the source, the second the other end's destination. Byte offsets. */
static inline uint64_t end_half(const struct end *end)
{
	return end->area.len_bytes / 2;
}

/* end_send -- a message. 0, or -EAGAIN: no buffer is free. */
int end_send(struct end *end, const void *data, uint32_t len);

/* One transfer at a time; it has ended when ended == begun. */
struct end_op {
	struct te_xfer xfer;
	struct end *end;
	uint64_t begun, ended;
};

/* end_xfer -- start the number-th transfer of `size` bytes. 0 or a code. */
int end_xfer(struct end *end, struct end_op *op, enum te_dir dir, uint64_t size, uint64_t number);

/* end_write_quiet, end_notice -- between te_order_begin and te_order_end, where te_info.ordered: a write without
 * immediate, of one chunk; and one immediate behind all writes so far. 0 or a code; -KV_EBUSY: not now. */
int end_write_quiet(struct end *end, struct end_op *op, uint64_t size, uint64_t number);
int end_notice(struct end *end, struct end_op *op);

/* end_gone -- whether the other process has closed the socket, or sent bytes out of turn. */
bool end_gone(const struct end *end);

/* end_receive, end_tell -- exactly len bytes over the socket, within wait_ns. 0, -KV_EPEERDOWN, -KV_ETIMEOUT or
 * -KV_ECANCELED. */
#define END_WAIT_NS 60000000000ull
int end_receive(int fd, void *data, size_t len, uint64_t wait_ns, int (*interrupted)(void));
int end_tell(int fd, const void *data, size_t len);

#endif
