/* SPDX-License-Identifier: Apache-2.0 */
/* end.h -- one of the two ends: an engine, memory that the other end reads and writes, and the socket between the two
 * processes, over which they exchange addresses and agree on what comes next. One thread. */
#ifndef KVRAIL_KVBENCH_FABRIC_END_H
#define KVRAIL_KVBENCH_FABRIC_END_H

#include "host/host.h"
#include "kvbench/fabric/fabric.h"

/* What the ends tell each other first: plain data of one program, on one machine. */
struct end_hello {
	struct te_address address;
	uint64_t len, base, key;
	uint64_t chunk; /* bytes of one operation at most */
	uint8_t virt;
};

enum end_mode {
	END_QUIET,       /* answer nothing */
	END_ECHO,        /* send each message back */
	END_ECHO_WRITES, /* when `chunks` immediates are here, write `size` bytes back */
	END_SINK         /* a message says how many immediates must be here; answer it then */
};

/* What comes next; the responder answers with a byte when it is ready. */
struct end_phase {
	uint32_t mode, chunks;
	uint64_t size;
};

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
	int fd;
	int broken; /* the first failure of an operation */
	/* What arrived. */
	uint64_t messages, imms;
	uint8_t last[KV_MSG_MAX];
	size_t last_len;
};

/* end_open -- open engine and memory, and exchange hellos over fd. interrupted: gives up when it is not 0. Owner:
 * end_close frees what there is, also after an error. fd stays the caller's. */
int end_open(struct end *end, const struct fabric_options *options, int fd, int (*interrupted)(void),
	     struct kv_error *err);
void end_close(struct end *end);

/* end_chunks -- operations that `size` bytes take, of an end whose operations have `chunk` bytes. */
static inline uint64_t end_chunks(uint64_t size, uint64_t chunk)
{
	return (size + chunk - 1) / chunk;
}

/* The memory's first half is where bytes come from, the second where the other end writes. Byte offsets. */
static inline uint64_t end_half(const struct end *end)
{
	return end->area.len_bytes / 2;
}

/* end_send -- a message. 0, or -EAGAIN: no buffer is free. */
int end_send(struct end *end, const void *data, uint32_t len);

/* One transfer at a time; it has ended when ended == begun. Zeroed first; it must outlive the engine. */
struct end_op {
	struct te_xfer xfer;
	struct end *end;
	uint64_t begun, ended;
};

/* end_xfer -- start a transfer of `size` bytes, the number-th of a row. 0 or a code. */
int end_xfer(struct end *end, struct end_op *op, enum te_dir dir, uint64_t size, uint64_t number);

/* end_gone -- whether the other process has closed the socket, or sent something out of turn. */
bool end_gone(const struct end *end);

/* end_receive, end_tell -- exactly len bytes over the socket, within 60 s. 0, -KV_EPEERDOWN, -KV_ETIMEOUT or
 * -KV_ECANCELED. */
int end_receive(int fd, void *data, size_t len, int (*interrupted)(void));
int end_tell(int fd, const void *data, size_t len);

#endif
