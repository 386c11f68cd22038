/* SPDX-License-Identifier: Apache-2.0 */
/* kvclient.h -- KVRail's client: get and put KV-cache blocks on kv-servers. The public API (C, stable ABI, kvc_).
 *
 * A pool has a fixed number of clients. A client has one engine (its endpoints), one registered buffer and a connection
 * to each server. It lives on one loop thread of the pool. A block is a value stored under a key. */
#ifndef KVRAIL_KVCLIENT_KVCLIENT_H
#define KVRAIL_KVCLIENT_KVCLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/codes.h" /* installed next to this header, as <kvrail/codes.h> */

#ifdef __cplusplus
extern "C" {
/* kvc_info, kvc_counters and others have the name of the struct that they fill: in C++ write `struct kvc_info` then. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wshadow"
#endif

#define KVC_API __attribute__((visibility("default")))

struct kvc_pool;
struct kvc_client;
struct kvc_mem;
struct kvc_session;
struct kvc_queue;
struct kvc_options;
struct kvc_call;
struct kvc_item;
struct kvc_borrowed;

/* ---- ten calls that most programs need ----
 * Each blocks its thread, which must not be a loop's, by the deadline and the grace. Calls about keys run on the pool's
 * clients in turn, or on the client of call->session; call may be NULL. They return 0 or a length, else a negative
 * code. The whole contracts are below: of kvc_get at kvc_get_await, of kvc_pool_open in "the pool", of kvc_register in
 * "memory". */

/* The bytes of the longest key. */
enum { KVC_KEY_MAX = 128 };

struct kvc_key {
	const void *data;
	size_t len; /* 1..KVC_KEY_MAX bytes */
};

/* kvc_pool_open -- start the clients of a pool and connect them to options->servers. After a failure *err has the
 * reason. */
KVC_API int kvc_pool_open(const struct kvc_options *options, struct kvc_pool **out, struct kv_error *err);
/* kvc_pool_close -- close the pool and free all of it. *pool becomes NULL. */
KVC_API void kvc_pool_close(struct kvc_pool **pool);

/* kvc_register -- let GETs into this memory and PUTs from it work without a copy, until kvc_unregister. */
KVC_API int kvc_register(struct kvc_pool *pool, void *base, uint64_t len_bytes, struct kvc_mem **out,
			 struct kv_error *err);
/* kvc_unregister -- undo kvc_register. Only after 0 may the memory be unmapped. */
KVC_API int kvc_unregister(struct kvc_pool *pool, struct kvc_mem **mem);

/* kvc_get -- read the value of a key into dst, as kvc_get_await. Returns its length; a miss is -KV_ENOTFOUND. */
KVC_API int64_t kvc_get(struct kvc_pool *pool, struct kvc_key key, void *dst, uint64_t dst_len,
			const struct kvc_call *call);
/* kvc_put -- store a value, as kvc_put_await. Treat -KV_EEXIST as stored: other bytes have the key, and stay. */
KVC_API int kvc_put(struct kvc_pool *pool, struct kvc_key key, const void *data, uint64_t len,
		    const struct kvc_call *call);
/* kvc_exists -- find out which of n keys exist, and how many before the first missing one, as kvc_exists_await. */
KVC_API int kvc_exists(struct kvc_pool *pool, const struct kvc_key *keys, unsigned n, uint8_t *out_found,
		       unsigned *out_prefix, const struct kvc_call *call);
/* kvc_delete -- delete a value, as kvc_delete_await. */
KVC_API int kvc_delete(struct kvc_pool *pool, struct kvc_key key, const struct kvc_call *call);
/* kvc_get_batch, kvc_put_batch -- GET or PUT n items, each with its own result, as kvc_get_batch_await and
 * kvc_put_batch_await. A large batch is cut into parts of neighbouring items, which run at the same time: one part for
 * each thread of the pool, 16 at most, with at least 2 MiB each (an item counts as its bytes and 16 KiB). A batch with
 * call->session is one part. Results, deadline and counters are those of one batch; the phases are those of the slowest
 * part. A part that its loop does not reach in time fails alone. */
KVC_API int kvc_get_batch(struct kvc_pool *pool, struct kvc_item *items, unsigned n, const struct kvc_call *call);
KVC_API int kvc_put_batch(struct kvc_pool *pool, struct kvc_item *items, unsigned n, const struct kvc_call *call);

/* ---- rules of all calls ----
 * Threads. Each comment below names one of three:
 *   worker  a coroutine of kvc_run or kvc_spawn. It makes the calls that end in _await. Only these park it, so that
 *           other workers of its loop run. Worker w uses client w % num_clients, on that client's loop.
 *   host    a thread of the program, not of a loop. It makes the calls without _await; most of them block it.
 *   any     both.
 * A worker must not occupy its thread: until it parks, every call of its loop stands still. A calling thread needs 64
 * KiB of stack, and must not be cancelled inside a call (pthread_cancel). A signal does not interrupt a call. The
 * library's threads block all signals except SIGPROF and those of their own faults. No call raises SIGPIPE.
 *
 * fork(). A pool belongs to the process that opened it. In a child every call that returns a code returns -KV_ECLOSED
 * at once, and touches nothing of the parent's; kvc_pool_close sets *pool to NULL and kvc_borrowed_release zeroes
 * *borrowed. A child may open a pool of its own: over tcp at any time; with NICs if libfabric's provider allows it
 * (EFA: FI_EFA_FORK_SAFE=1 before the parent's first call); on shm never. A worker that forks must leave the child by
 * exec or _exit, without return or wait. A child that does not exec keeps the parent's connections open.
 *
 * Deadlines. A call returns by its deadline plus the grace, with success or exactly one code. The deadline is the
 * call's timeout_ns from now; 0 means the pool's timeout_ns. If both are 0, the call has 5 s, and 1 s more for every
 * 100 MB that it may move (dst_len, len, or all items of a batch together). The deadline of a blocking call counts from
 * its start, even while its loop is busy.
 *   The grace (kvc_options.grace_ns) is the time in which a server must confirm that it has stopped, from the moment
 * the client asks; a late loop adds its delay. If the server does not confirm and could still write to the caller's
 * memory, the call fences it before it returns, so no late write can land there. On tcp with a doorkeeper the fence
 * disconnects that server alone. Elsewhere it rebuilds the client's endpoint: some ms, up to 100 ms on tcp with large
 * rxm buffers, and on EFA seconds if a host died.
 *   No deadline bounds two delays: a worker that occupies its loop's thread, and a provider that pins memory, opens an
 * endpoint, or on shm spins for a killed or stopped peer (docs/internals/providers.md). A call without a timeout names
 * its bound below.
 *
 * Memory. Arguments stay the caller's. The library reads and writes them during the call only; a comment names each
 * exception. Outputs (out_..., *out) are written on success only, unless the comment says otherwise. GET verifies the
 * XXH3-64 of the value unless a flag forbids it: wrong bytes are never delivered as good.
 *
 * Errors. A code is negative; codes.h lists them, and docs/reference/codes.md gives the remedy for each. `err` may be
 * NULL everywhere. The library never calls exit or abort, sets no environment variable (except in kvc_program_setup),
 * and installs no signal handler (libfabric's shm provider does). Each comment lists its call's own codes. Any call may
 * also return one of these:
 *   -KV_EINVAL     at once, nothing done: NULL for a required argument, a length of 0, a key of more than 128 bytes, a
 *                  `size` field without a value, an unknown flag, an _await call outside a worker of that client, a
 *                  blocking call on a loop's thread
 *   -KV_ECLOSED    the pool is being closed (a call in progress ends within the grace), or this is a child of fork()
 *   -KV_ENOMEM     no memory in this process
 * A call that asks a server may also return one of these, the server codes:
 *   -KV_ETIMEOUT   the deadline has passed
 *   -KV_EPEERDOWN  the server is unreachable, or was lost during the call. For a call about keys: all servers
 *   -KV_EDENIED    the server refuses this client's key or certificate
 *   -KV_EVERSION   the server's release, provider or eager size does not match ours
 *   -KV_EBUSY      the server was still busy after eight retries within a quarter of a second
 *   -KV_EPROTO     the server's bytes are not the protocol
 *   -KV_EPROVIDER  the fabric provider failed until the deadline
 * A call that blocks its thread while a client's loop works may also return one of these, the loop codes:
 *   -KV_EBUSY      the loop's queue is full: nothing was started
 *   -KV_ETIMEOUT   the loop did not reach the call by its deadline: nothing was started, nor will be
 *
 * Struct sizes. In a struct with a `size` field, set that to sizeof and zero the rest: a zero field means its default.
 * If a program sets a field that an older library does not know, the call returns -KV_EINVAL, with a sentence if it
 * takes a struct kv_error. In a struct that the library fills, set `size` before the call; afterwards it holds the
 * number of bytes that this library knows, and the rest is zeroed. Fields called `reserved` must be zero in a struct
 * that you fill (else -KV_EINVAL), and are zero in one that the library fills. */

/* ---- coroutines ----
 * The same calls for workers, and more. Unless a note differs: Parks: yes. Thread: worker. Errors: also the server
 * codes. */

/* kvc_run -- run workers fn(client, w, arg) for w = 0 .. num_workers - 1, until all have returned.
 *
 * Either all are started, or none.
 * Blocks: until the last worker has returned; the pool's timeout bounds their start. Thread: host.
 * Owner: arg is the caller's, and must live until kvc_run returns.
 * Returns 0 when all have returned. Errors: none was started.
 *   -KV_EBUSY      a loop has no room for all the coroutines, or its queue is full
 *   -KV_ETIMEOUT   a loop is stuck: a worker or the provider occupies its thread */
KVC_API int kvc_run(struct kvc_pool *pool, unsigned num_workers,
		    void (*fn)(struct kvc_client *client, unsigned w, void *arg), void *arg);

/* kvc_spawn -- start one more worker fn(client, w, arg), on the client of worker w.
 *
 * Blocks: until it is started, within the pool's timeout; never in a worker. Thread: host, or a worker of that client's
 * loop (of another loop: -KV_EINVAL).
 * Owner: arg is the caller's, and must live until fn returns.
 * Returns 0; fn may still be running. Errors: fn never runs.
 *   -KV_EBUSY      the loop has no room for another coroutine, or its queue is full
 *   -KV_ETIMEOUT   the loop is stuck */
KVC_API int kvc_spawn(struct kvc_pool *pool, unsigned w, void (*fn)(struct kvc_client *client, unsigned w, void *arg),
		      void *arg);

/* kvc_get_await -- read the value of a key into dst.
 *
 * Owner: dst is the caller's. If it lies in registered memory (kvc_register), the value arrives there directly; other
 * memory is filled by a copy from the client's buffer. Values of up to 3 KiB come inside the reply.
 * Returns the number of bytes in dst: the length of the value, or of the requested part. After a failure the contents
 * of dst are undefined.
 * Errors:
 *   -KV_ENOTFOUND  no such key; or its value has another length (KVC_EXACT); or all servers are down, with
 *                  KVC_DOWN_IS_MISS or after the key's own server said goodbye
 *   -KV_ETOOBIG    the value, or the requested part, is longer than dst_len
 *   -KV_ECORRUPT   the checksum was wrong twice
 *   -KV_EINVAL     call->offset lies beyond the value */
KVC_API int64_t kvc_get_await(struct kvc_client *client, struct kvc_key key, void *dst, uint64_t dst_len,
			      const struct kvc_call *call);

/* kvc_put_await -- store a value of 1 byte to 1 GiB. It becomes visible as a whole or not at all.
 *
 * Storing the same bytes again succeeds and counts as a use; the later of both expiry times holds.
 * Owner: data is the caller's. If it lies in registered memory or in a borrowed piece of this client, the server reads
 * it there, or the client writes it from there; other memory is copied, and so are values of up to 16 KiB that the
 * client writes. Values of up to 3 KiB travel inside the request, or with the other items of their batch.
 * kvc_server_info.put_way shows how larger ones travel.
 * Errors:
 *   -KV_EEXIST     other bytes are stored under the key, and stay. This is normal for recomputed blocks, since their
 *                  last bits differ: treat it as stored (counter put_conflicts, not errors)
 *   -KV_ENOMEM     also: the server cannot make room
 *   -KV_ETOOBIG    longer than 1 GiB, than kv-server --value-max, or than a shard
 *   -KV_ELEFT      all servers are down, and the key's own has said goodbye */
KVC_API int kvc_put_await(struct kvc_client *client, struct kvc_key key, const void *data, uint64_t len,
			  const struct kvc_call *call);

/* kvc_exists_await -- find out which of n keys exist, with one round trip for each 1,024 of them.
 *
 * out_found[i] becomes KVC_FOUND_MEMORY (1) or KVC_FOUND_TIER (2) if key i exists, else 0; *out_prefix becomes the
 * number of keys before the first missing one. Either pointer may be NULL. If all servers are down, keys do not exist,
 * with KVC_DOWN_IS_MISS or after their own server said goodbye. The servers compare digests of 8 bytes: with a
 * probability of one in 2^64 a key seems to exist because another one has its digest. If out_found is NULL, keys far
 * behind the first missing one are not asked for, and errors there go unnoticed. Owner: keys are the caller's. On
 * failure *out_prefix is untouched, and out_found may be written in part. Returns 0 or a code. Errors: the server
 * codes, if any asked server fails. */
KVC_API int kvc_exists_await(struct kvc_client *client, const struct kvc_key *keys, unsigned n, uint8_t *out_found,
			     unsigned *out_prefix, const struct kvc_call *call);

/* kvc_delete_await -- delete a value. A GET in progress completes.
 *
 * Returns 0 or a code.
 * Errors:
 *   -KV_ENOTFOUND  no such key; or all servers are down, with KVC_DOWN_IS_MISS or after the key's own server said
 *                  goodbye */
KVC_API int kvc_delete_await(struct kvc_client *client, struct kvc_key key, const struct kvc_call *call);

/* kvc_get_batch_await, kvc_put_batch_await -- GET or PUT n items at once, each with its own result. Only the deadline,
 * one for all, limits n.
 *
 * Items of one server do not wait for those of another; the call waits for all. Items that succeeded stay done.
 * Owner: items, their keys, data and layouts are the caller's. Every result is written. If the whole batch was refused
 * or given up before it began, each result is that code.
 * Returns 0 when every item succeeded, else the code of the first item that did not.
 * Errors: per item, as kvc_get_await and kvc_put_await. -KV_EINVAL, and no result is written: an item is in another
 * pending call; or, in builds with assertions, two items of a GET share bytes.
 *   -KV_EINVAL     also: the item's place is not valid (struct kvc_item, struct kvc_layout)
 *   -KV_ENOTFOUND  also: an item read in parts was replaced after its first part was counted */
KVC_API int kvc_get_batch_await(struct kvc_client *client, struct kvc_item *items, unsigned n,
				const struct kvc_call *call);
KVC_API int kvc_put_batch_await(struct kvc_client *client, struct kvc_item *items, unsigned n,
				const struct kvc_call *call);

/* kvc_get_borrowed_await -- read the value of a key without a copy: in the memory of its server if that is on this host
 * (out->in_place), else in the client's own buffer.
 *
 * In place a value may have any length. The server keeps its bytes, whatever happens to the key, until the caller
 * gives them back or dies; it lends each client a quarter of its memory at most, and then the buffer is used.
 * expect_len: the expected length in bytes; in the buffer a wrong one costs a second round trip. 0: call->length, and
 * if both are 0, the length of the client's previous value.
 * Owner: the bytes are the caller's, to read, until kvc_borrowed_release. *out is zeroed on failure.
 * Returns out->len.
 * Errors: as kvc_get_await, but
 *   -KV_ETOOBIG    not in place: the value is larger than half of the buffer
 *   -KV_ENOTSUP    the pool seals values: use kvc_get_await
 *   -KV_EBUSY      also: its length changed at each attempt */
KVC_API int64_t kvc_get_borrowed_await(struct kvc_client *client, struct kvc_key key, uint64_t expect_len,
				       const struct kvc_call *call, struct kvc_borrowed *out);

/* kvc_borrow_await -- borrow len_bytes of the client's buffer, to fill them and PUT them without a copy.
 *
 * timeout_ns: as in struct kvc_call. Parks: until the buffer has room, by the deadline.
 * Owner: the bytes are the caller's until kvc_borrowed_release. *out is zeroed on failure.
 * Returns 0 or a code.
 * Errors: no server codes, but
 *   -KV_ETIMEOUT   no room became free
 *   -KV_ENOTSUP    the pool seals values, and servers can read such room: use memory of your own
 *   -KV_ETOOBIG    more than the buffer */
KVC_API int kvc_borrow_await(struct kvc_client *client, uint64_t len_bytes, uint64_t timeout_ns,
			     struct kvc_borrowed *out);

/* kvc_put_borrow_await -- borrow room for a value of this key, to fill it and PUT it under the key, with kvc_put_await,
 * without a copy by the client. If the key's server is on this host, the room is memory that the server maps as well
 * (out->in_place); else, or if none of that is free, it is a piece of the client's buffer, as of kvc_borrow_await.
 *
 * timeout_ns: as in struct kvc_call. Parks: until there is room, by the deadline.
 * Owner: as for kvc_borrow_await. The server verifies the checksum of its own copy, so bytes that change during the PUT
 * only make that PUT fail.
 * Returns 0 or a code. Errors: as kvc_borrow_await. */
KVC_API int kvc_put_borrow_await(struct kvc_client *client, struct kvc_key key, uint64_t len_bytes, uint64_t timeout_ns,
				 struct kvc_borrowed *out);

/* kvc_get_borrowed, kvc_put_borrow, kvc_put_borrowed -- the same for hosts: GET a value and borrow it; borrow room for
 * a value; PUT the `len` bytes of borrowed room, which stays borrowed, on the client that lent it. Blocks: by the
 * deadline. Thread: host. Errors: also the loop codes. */
KVC_API int64_t kvc_get_borrowed(struct kvc_pool *pool, struct kvc_key key, uint64_t expect_len,
				 const struct kvc_call *call, struct kvc_borrowed *out);
KVC_API int kvc_put_borrow(struct kvc_pool *pool, struct kvc_key key, uint64_t len_bytes, uint64_t timeout_ns,
			   struct kvc_borrowed *out);
KVC_API int kvc_put_borrowed(struct kvc_pool *pool, struct kvc_key key, const struct kvc_borrowed *room,
			     const struct kvc_call *call);

/* kvc_borrowed_release -- give back a value or piece. *borrowed is zeroed, and may be zeroed already.
 *
 * A borrowed value with in_place may be given back on any thread, also after its pool was closed and its server died:
 * its bytes stay until then. All else ends with the pool: give it back before, on a worker of that client or a host
 * thread, which blocks until the client's loop has it. client: the client that lent it, or NULL. In a child of fork()
 * it only zeroes *borrowed. */
KVC_API void kvc_borrowed_release(struct kvc_client *client, struct kvc_borrowed *borrowed);

/* Borrowed bytes: a piece of a client's registered buffer, or a value in the memory of a server on this host. */
struct kvc_borrowed {
	void *data;
	uint64_t len;       /* bytes of the value in it */
	uint64_t value_len; /* bytes of the whole value */
	/* 1: data is memory shared with a server on this host: of a GET the value itself, mapped read-only, where a
	 * write raises SIGSEGV; of kvc_put_borrow room for a value. 0: a piece of the client's buffer. */
	uint32_t in_place;
	uint32_t reserved_32;
	uint64_t priv[4]; /* the library's */
};

/* ---- queues: submit now, reap later ----
 * For a program with an event loop of its own. Any thread submits batches to a queue, which gives each an id. One
 * thread reaps: when the queue's descriptor is readable, one call takes all ended ids. Every id gets exactly one
 * completion, by its deadline and the grace, in the order in which ids end.
 *
 * Owner: items, their keys, data and layouts, and the phases of call->phases, are not copied. From the submission until
 * the completion was reaped they are the library's: keep them, and do not read or change them (with KVC_SEAL_NAMES the
 * library changes the items' keys meanwhile). An item is in one id at a time. After the completion nothing touches them
 * any more: the array may be reused, and registered memory unregistered. The deadline of an id counts from its
 * submission. If a busy or stuck loop has not reached the id by then, nothing was begun: the descriptor becomes
 * readable, and kvc_reap returns the id with -KV_ETIMEOUT. Only a begun id has the grace on top. fork(): in a child all
 * calls on a queue of the parent return -KV_ECLOSED. The child must not poll the descriptor.
 * */

enum kvc_queue_flag {
	/* The descriptor also becomes readable when parts of items were counted since the last kvc_reap (struct
	 * kvc_layout): reap, which may give no completion, then look with kvc_arrival_parts. A burst of parts is one
	 * event. */
	KVC_QUEUE_PARTS = 1
};

struct kvc_queue_options {
	size_t size;
	/* 1,024; at most 65,536: ids that may be submitted and not reaped. Each takes some 300 bytes, and 100 for each
	 * thread of the pool (16 at most). */
	uint32_t depth;
	uint32_t flags; /* 0; enum kvc_queue_flag */
};

/* kvc_queue_open -- open a queue of the pool. A pool may have several. The call takes all memory and three descriptors;
 * submitting takes none.
 * Thread: any; never blocks. Owner: *out is the caller's until kvc_queue_close. options NULL: all defaults.
 * Errors:
 *   -KV_EINVAL     options->depth is too large, or an unknown flag
 *   -KV_ELIMIT     the process has no descriptor left */
KVC_API int kvc_queue_open(struct kvc_pool *pool, const struct kvc_queue_options *options, struct kvc_queue **out,
			   struct kv_error *err);

/* kvc_queue_fd -- the descriptor to wait on: by poll, epoll or io_uring's poll, level-triggered. It is readable while
 * completions wait, after parts with KVC_QUEUE_PARTS, and rarely without a cause. Only kvc_reap may read it: do not
 * read, write or close it. Thread: any; never blocks. Returns the descriptor, which is the queue's, or a code. */
KVC_API int kvc_queue_fd(const struct kvc_queue *queue);

/* kvc_queue_close -- cancel all ids in progress, wait until no memory of the caller is used any more, and free the
 * queue.
 *
 * Unreaped ids are dropped: their items have their results, and no completion comes. To drop none, reap first until
 * nothing is left. A queue may be closed after its pool, but not while another thread closes the pool.
 * Blocks: by the grace, and a fence, as after kvc_cancel. Thread: host; no other thread may be in a call on the queue,
 * or begin one.
 * Owner: *queue becomes NULL, and may be NULL already.
 * Returns how many ids were dropped.
 * Errors:
 *   -KV_EINVAL     on a loop's thread: nothing was done */
KVC_API int kvc_queue_close(struct kvc_queue **queue);

/* kvc_submit_get, kvc_submit_put, kvc_submit_exists, kvc_submit_delete -- submit a batch of n items, each of which gets
 * its own result.
 *
 * GET and PUT do as kvc_get_batch and kvc_put_batch. EXISTS and DELETE use only the items' keys. An item's result is an
 * enum kvc_found for EXISTS, 0 for DELETE, or a code. The prefix of EXISTS is the leading run of results above 0.
 * Items of a slow server hold up no items of another.
 * A large batch is spread over the threads of the pool, unless it has call->session or call->phases. n may be 0: the id
 * ends at once.
 * tag: comes back in the completion.
 * Thread: any, also several at once; never blocks, takes no lock and no memory.
 * Owner: see above; call itself is read during the call only. call->session must stay open until the completion was
 * reaped.
 * Returns the id, above 0; it is never used again. Errors: nothing was begun, and no completion comes.
 *   -KV_EBUSY      the queue is full (options.depth; half of it for KVC_BACKGROUND), or that of a loop: reap, and
 *                  submit again
 *   -KV_EINVAL     also: an item is in another pending id; in builds with assertions, two items of a GET share bytes
 * Per item, in the completion: as kvc_get_await, kvc_put_await, kvc_exists_await and kvc_delete_await, and
 *   -KV_ECANCELED  kvc_cancel or kvc_queue_close
 *   -KV_ECLOSED    kvc_pool_close, which ends all ids before it returns: reap them afterwards, and close the queue
 *   -KV_EBUSY      also: the queue of the loop for this part of a large batch is full */
KVC_API int64_t kvc_submit_get(struct kvc_queue *queue, struct kvc_item *items, unsigned n, const struct kvc_call *call,
			       uint64_t tag);
KVC_API int64_t kvc_submit_put(struct kvc_queue *queue, struct kvc_item *items, unsigned n, const struct kvc_call *call,
			       uint64_t tag);
KVC_API int64_t kvc_submit_exists(struct kvc_queue *queue, struct kvc_item *items, unsigned n,
				  const struct kvc_call *call, uint64_t tag);
KVC_API int64_t kvc_submit_delete(struct kvc_queue *queue, struct kvc_item *items, unsigned n,
				  const struct kvc_call *call, uint64_t tag);

struct kvc_completion {
	uint64_t id, tag;
	struct kvc_item *items; /* the caller's again, with a result in each */
	uint32_t n;
	int32_t result; /* 0 when every item succeeded, else the code of the first item that did not */
	uint32_t op;    /* enum kvc_op */
	uint32_t reserved_32;
	uint64_t reserved[2];
};

/* kvc_reap -- take completions, at most max.
 * Thread: any, one at a time; never blocks, and takes a bounded time: if thousands of ids have ended, or may have, it
 * leaves some to the next call. Returns how many were written to out; 0: no id has ended, the next call continues, or
 * max is 0. The rest stays, and the descriptor stays readable until nothing is left.
 * Errors:
 *   -KV_EBUSY      another thread is reaping */
KVC_API int kvc_reap(struct kvc_queue *queue, struct kvc_completion *out, unsigned max);

/* kvc_cancel -- give an id up. Its completion still comes, and soon. An id ends at once if it was not begun, or only
 * waits: for room, for a connection, for a busy server, for its session, for another copy of its value. An id with a
 * request in flight ends within the grace, and a fence if the request names memory of the caller. Finished items have
 * their results, the others -KV_ECANCELED; a PUT or DELETE among these may have been done.
 * Thread: any; never blocks.
 * Returns 0, also if the id was cancelled before and is still pending.
 * Errors:
 *   -KV_ENOTFOUND  there is no such id, or it has ended: reap it, unless that was done
 *   -KV_EBUSY      the queue of a loop is full: call again */
KVC_API int kvc_cancel(struct kvc_queue *queue, uint64_t id);

/* ---- the arguments of calls ---- */

/* Options of one call; a NULL pointer means all defaults. A timeout must allow for the value's size: 1 GiB takes about
 * 7 s over loopback TCP. */
struct kvc_call {
	size_t size;
	uint64_t timeout_ns; /* 0: the pool's */
	uint64_t offset;     /* GET: read from here. At the value's end: 0 bytes; beyond: -KV_EINVAL */
	/* GET: read this many bytes from `offset`; 0: to the end. The server computes a checksum of this part, and the
	 * client verifies it. */
	uint64_t length;
	uint32_t ttl_s; /* PUT, TOUCH: the value expires after this many seconds; 0: the server's default */
	/* KVC_NO_VERIFY, KVC_DOWN_IS_MISS, KVC_TWO_COPIES, in addition to the pool's; KVC_BACKGROUND, KVC_EXACT,
	 * KVC_MEMORY_ONLY; others: -KV_EINVAL */
	unsigned flags;
	uint32_t server; /* STAT, PING, DRAIN, namespaces: index into options.servers */
	uint32_t shard;  /* STAT, PING: 0: all shards; n: shard n - 1 alone */
	/* Any call. Written when the call returns, unless it did not start (-KV_EINVAL, -KV_ECLOSED, the loop codes).
	 * NULL: nothing is measured, and no clock is read. */
	struct kvc_phases *phases;
	/* The session that makes the call; NULL: the client's own. It must belong to the same client (-KV_EINVAL); a
	 * blocking call runs on the session's client. If the server refuses the session after a reconnect, the call
	 * returns that refusal: see kvc_session_open_await. */
	struct kvc_session *session;
	/* GET of one key: receives the length of the whole value, also if the call returns -KV_ETOOBIG. NULL: not
	 * needed. */
	uint64_t *out_value_len;
};

/* The phases of a call, in nanoseconds; docs/reference/counters.md explains each one, and when it is long. They add up
 * to total_ns (post_ns is contained in server_ns). Of a call with several requests they are those of the longest
 * request. The clock is the client's; the server's phases are durations from its reply. */
struct kvc_phases {
	size_t size;        /* set it before the call */
	uint64_t total_ns;  /* from the call to its return */
	uint64_t room_ns;   /* from the call until it had a connection and room for its request */
	uint64_t queue_ns;  /* until the engine took its frame */
	uint64_t server_ns; /* at the server, from the request's arrival until its reply was made */
	uint64_t post_ns;   /* at the server, from the request's arrival until its last data operation was posted */
	uint64_t wire_ns;   /* from the engine to the reply, less server_ns: both ways, both engines */
	uint64_t data_ns;   /* from the reply until the last data write arrived */
	uint64_t wake_ns;   /* from the end of the last request until the call's coroutine ran again */
	uint64_t check_ns;  /* until the call returned: checksum, copies */
	uint64_t other_ns;  /* the rest: other requests of the call, pauses before a retry */
};

/* One item of a batch. */
struct kvc_item {
	struct kvc_key key;
	void *data;   /* destination of GET, source of PUT */
	uint64_t len; /* bytes of value that data can take (GET) or has (PUT); gaps between slices do not count */
	/* The value is slices of `slice` bytes that begin `stride` bytes apart, from data on: one block in many layers.
	 * If slice is 0, or at least len, the value is contiguous. The item fails with -KV_EINVAL if stride is below
	 * slice, or if slices begin in registered memory and end behind it. Gaps between slices are never written.
	 * Slices in registered memory are read and written in place, except these, which are copied: slices of a small
	 * item, pulled slices, and for PUT slices shorter than 16 KiB or than the client writes at a time. */
	uint64_t slice, stride;
	int64_t result; /* out. GET: the value's length or a code; PUT: 0 or a code */
	/* NULL: data, slice and stride define the place. A library that does not know layouts returns -KV_EINVAL. Not
	 * copied: during the call it is the library's, as data is. */
	const struct kvc_layout *layout;
};

/* One of several places in memory that hold a value. */
struct kvc_span {
	void *data;
	uint64_t len;           /* bytes of value; gaps between slices do not count */
	uint64_t slice, stride; /* as in struct kvc_item */
};

enum { KVC_SPANS_MAX = 1024, KVC_PARTS_OF_ITEM_MAX = 1024 };

/* More about an item than one place. */
struct kvc_layout {
	size_t size;
	/* The value lies in these, in this order: such as the K and the V tensors of each layer. item.len is the sum of
	 * their lengths, and the item's data, slice and stride are 0; else it fails with -KV_EINVAL, as it does with
	 * more than KVC_SPANS_MAX. Spans of a GET must not overlap: shared bytes are those of either span, or the item
	 * fails with -KV_ECORRUPT. Spans of one length (the last one may be shorter) at one distance are slices; others
	 * are copied, also from and to registered memory. */
	const struct kvc_span *spans;
	uint32_t num_spans; /* 0: none, the item defines the place */
	/* GET in parts, at most KVC_PARTS_OF_ITEM_MAX: part i ends at byte part_ends[i] of the value, and the last one
	 * at item.len. Part 0 of all items of the batch is asked for first, then part 1, and so on; each is verified by
	 * itself and then counted in *arrival. call->offset and call->length must be 0. All parts are of one value: an
	 * item whose value is replaced in between fails with -KV_ENOTFOUND. For PUT these three must be 0 (else
	 * -KV_EINVAL). If items of a batch share *arrival, the last of them has it, and the others fail with
	 * -KV_EINVAL. A value shorter than its place succeeds, unless the call has KVC_EXACT: look at its result. */
	uint32_t num_parts;
	const uint64_t *part_ends;
	struct kvc_arrival *arrival;
	/* GET: borrow the value, as kvc_get_borrowed_await does, instead of copying it to a place. item.len is the
	 * expected length, or 0; the item's data, slice and stride, and all fields above are 0. *borrowed is zeroed
	 * first, and filled if the item succeeds; the caller gives it back. Items of servers on this host run at the
	 * same time, others one by one. Not for PUT (-KV_EINVAL). */
	struct kvc_borrowed *borrowed;
};

/* The progress of one item read in parts. During the call it is the library's, as data is, but may be read. The call
 * first sets it to 0 parts, so a used one needs no zeroing; it is 0 when the submission has returned. */
struct kvc_arrival {
	uint32_t parts; /* for kvc_arrival_parts */
	uint32_t reserved_32;
	uint64_t priv[12]; /* the library's */
};

/* kvc_arrival_parts -- how many parts of the value, from its beginning, are at their place and verified (unless
 * KVC_NO_VERIFY). Only full parts count: if the value is shorter than its item, the number stays below num_parts. These
 * bytes may be read, and are not written to again, even if the item fails later. The number only rises during a call.
 * NULL: 0. Thread: any; never blocks. */
KVC_API uint32_t kvc_arrival_parts(const struct kvc_arrival *arrival);

/* kvc_key_fold -- turn a key of any length into one that calls accept. A key of up to KVC_KEY_MAX bytes is unchanged,
 * and *out points to `data`. A longer key becomes its first 63 bytes, a '#', and the SHA-256 of the whole key in 64
 * lower-case hexadecimal digits; *out points to `room`. Equal keys fold to equal keys, in every version and on every
 * machine; different keys to different ones.
 * Thread: any; never blocks. Owner: data and room are the caller's, and must not change while *out is used.
 * Returns 0 or a code. Errors:
 *   -KV_EINVAL     data or out is NULL, or room for a longer key, or len is 0
 *   -KV_ENOMEM     OpenSSL had no memory for the digest */
KVC_API int kvc_key_fold(const void *data, size_t len, unsigned char room[KVC_KEY_MAX], struct kvc_key *out);

/* ---- the pool ---- */

enum kvc_flag {
	KVC_NO_VERIFY = 1, /* do not check checksums of GETs */
	/* While all servers are down, a key is a miss (-KV_ENOTFOUND) instead of -KV_EPEERDOWN. Not for PUT. Even
	 * without the flag it is a miss if the key's own server said goodbye; PUT returns -KV_ELEFT then. See "Servers
	 * that are down". */
	KVC_DOWN_IS_MISS = 2,
	/* kvc_pool_open does not check first whether the machine has the resources for all clients. For programs that
	 * measure how many clients can be opened. */
	KVC_NO_PREFLIGHT = 4,
	KVC_OPEN_WAIT = 8, /* kvc_pool_open waits until every client has a server, and fails if one has none */
	/* The pool has one loop and starts no thread for it: the host turns the loop, see kvc_poll. (Threads that look
	 * up names are still started; see "Effects on the process".) */
	KVC_NO_THREADS = 16,
	/* Of a call, not of a pool. Other calls overtake this one wherever requests of the client wait: for room in the
	 * buffer, for credits, links or landing areas, for their turn in a queue. Background calls get at most half of
	 * each, and of the queue's ids, and 64 requests in flight at a server. They are not starved: at least one grant
	 * in 17 goes to a background call, if any waits. */
	KVC_BACKGROUND = 32,
	/* Of a pool or of calls. Two servers keep each value: see "Two copies". Either all calls about a key have the
	 * flag, or none. */
	KVC_TWO_COPIES = 64,
	/* Of a pool, not of a call. Values that servers report as hot get a second copy: see "Two copies". Either all
	 * pools that use a key have the flag, or none. */
	KVC_HOT_COPIES = 128,
	/* Of a GET, not of a pool. A value (or the requested part) of another length than its destination is a miss
	 * (-KV_ENOTFOUND). The destination's length is dst_len, an item's len, or expect_len unless that is 0. On one
	 * host nothing of such a value is copied. From another host the value, or its first piece, still travels if it
	 * is shorter than its destination or takes several pieces. */
	KVC_EXACT = 256,
	/* Of a pool with a seal_key_file, not of a call. Names of keys are sealed as well. */
	KVC_SEAL_NAMES = 512,
	/* Of a GET, not of a pool. A value that the server has on its NVMe tier alone (kv-server --tier) is not read
	 * from there: -KV_ETIER, for callers that rather compute it. */
	KVC_MEMORY_ONLY = 1024
};

/* kvc_exists: a key that exists is in the server's memory, or on its tier alone, from where a GET takes longer. */
enum kvc_found { KVC_FOUND_NOT, KVC_FOUND_MEMORY, KVC_FOUND_TIER };

/* Which side moves the bytes of a GET. Push: the server writes them. Pull: the client reads them from the server's
 * memory, if the server allows it (kv-server --allow-pull). Pull is for NICs that can only read, and for servers short
 * of CPU. */
enum kvc_mode {
	/* Pull if the server allows it and the provider emulates its writes but not our reads; else push. */
	KVC_MODE_AUTO,
	KVC_MODE_PUSH,
	/* A server that does not allow pull counts as down; with KVC_OPEN_WAIT kvc_pool_open returns -KV_ENOTSUP. The
	 * server still pushes if it has no room for another lease, and to a call whose leases expired twice. */
	KVC_MODE_PULL
};

/* For machines with several NUMA nodes. AUTO: the node of a client's NICs provides the memory of its buffer and engine,
 * and the pool's threads are bound to that node's CPUs, if the process may use them. The library binds only its own
 * threads. */
enum kvc_numa { KVC_NUMA_AUTO, KVC_NUMA_OFF };

/* The doorkeeper (docs/guide/security.md). Each client of a pool has a fabric port in this process. On providers tcp
 * and tcp-native the doorkeeper admits only servers that the pool has authenticated, and checks their messages before
 * libfabric reads them. To do so it replaces functions that libfabric imports (accept, recv, close and others) in
 * libfabric's import table, once per process. AUTO: use it if possible, else log a warning. REQUIRE: kvc_pool_open
 * returns -KV_ENOTSUP if it is not possible, as on all other providers. OFF: replace nothing. */
enum kvc_door { KVC_DOOR_AUTO, KVC_DOOR_REQUIRE, KVC_DOOR_OFF };

/* Whether to share memory with servers on this host. AUTO: if the server offers it, else the fabric, with one line in
 * the log. OFF: always the fabric. */
enum kvc_local { KVC_LOCAL_AUTO, KVC_LOCAL_OFF };

/* kvc_pool_open copies the strings. The functions log and pin_lost and their arguments must live as long as the pool.
 * The first number or name in a field's comment is its default; if there is none, 0 and NULL mean "not used". */
struct kvc_options {
	size_t size;
	unsigned num_clients; /* 4. Each costs an endpoint per rail, and its buffers; above 8 there is a warning */
	/* Half of the cores, 1 to 4; on shm, where clients copy, 4. At most num_clients threads are started. With
	 * KVC_NO_THREADS: 0 or 1, and no thread is started. */
	unsigned num_threads;
	uint64_t buffer_bytes; /* 64 MiB for each client; 1 MiB to 64 GiB */
	/* Each "NAME=HOST:PORT" or "HOST:PORT"; at least one; the default port is 7411. A server with several
	 * addresses, up to 4, is "NAME=HOST:PORT+HOST:PORT": they are tried in turn, beginning with the one that worked
	 * last. A link-local address is refused. The names alone decide which server keeps a key; without NAME the name
	 * is HOST:PORT. So all programs that share the servers need the same names, in any order: localhost in one list
	 * and 127.0.0.1 in another place keys differently. The name of a server with a node id (kv-server --node-id)
	 * must be that id, unless the server announces a view of the cluster. A server with another id, or one that the
	 * list names twice, is not used; the log and kvc_server_info.why report it. With KVC_OPEN_WAIT kvc_pool_open
	 * fails if no server is left. */
	const char *const *servers;
	unsigned num_servers;
	/* The number of servers that the pool has room for: those of the list and of the cluster's view, including
	 * former ones until they are given up. 0: 64, or the length of the list; 1,024 at most. A view with more
	 * members is rejected and logged. */
	unsigned servers_max;
	/* "auto": efa, else verbs, else tcp. By name: efa, efa-direct, verbs, tcp, tcp-native, net (libfabric's own of
	 * that name, if it is built), shm, or one of libfabric's exact names ("tcp;ofi_rxm"). The servers must use the
	 * same. */
	const char *provider;
	/* Use only these NICs, in this order: names separated by commas, each a device ("mlx5_0", "eth0") or an IP
	 * address of this machine. For an unknown name kvc_pool_open returns -KV_ENOTSUP; its sentence lists the known
	 * ones. */
	const char *nic;
	/* NICs for each client. 0: all of `nic`. 0 without `nic`: on EFA the client's share of the machine's NICs, 8 at
	 * most; on all other providers 1, because two NICs may be on two networks. */
	unsigned num_rails;
	uint64_t timeout_ns; /* of calls that specify none, or take none. 0: 5 s, and 1 s more for every 100 MB */
	uint64_t grace_ns;   /* 200 ms; a minute at most. See "Deadlines" */
	/* 5 s. For one attempt to connect to a server: look up its name, try all its addresses, and receive the first
	 * answers over the fabric. */
	uint64_t connect_timeout_ns;
	uint64_t spin_ns; /* 50 us. A loop polls at most this long before it sleeps, while polling helps; 1: never */
	/* 100. A server displays each client by this number plus the client's index. 65,536 numbers from 10^15 on are
	 * reserved for servers and kv-client; kv-server keeps places for them in addition to --max-clients. */
	uint64_t base_client_id;
	unsigned flags; /* enum kvc_flag */
	/* A pre-shared key, "identity:hex", as the last line of a file (`kv-server --make-psk FILE`), or directly. */
	const char *psk_file, *psk;
	const char *cert_file, *key_file, *ca_file; /* PEM; all three or none, and not with a psk */
	int log_level;                              /* 0 off, 1 error, 2 warn, 3 info, 4 debug */
	/* Called on any thread, including a loop's: it must return soon and make no call of the library. NULL: lines
	 * are written to stderr, as JSON objects if KVRAIL_LOG_FORMAT is json. */
	void (*log)(void *arg, int level, const char *line);
	void *log_arg;
	/* 2 s; 20 ms to 1 hour. A server that does not answer for this long is down, but never earlier than two of its
	 * heartbeats (kv-server --heartbeat-ms, 500). While no call waits for it, a server of many clients may be
	 * silent for up to 10 s. */
	uint64_t peer_timeout_ns;
	/* Log each call that takes this long or longer, with its phases: at level warn, ten lines a second per client
	 * (docs/reference/counters.md). 0: none. */
	uint64_t slow_ns;
	/* kvc_pool_open calls it on the calling thread while it waits, ten times a second and after each client.
	 * clients_open: clients with endpoints and buffers; clients_up: clients with a server. If it returns false,
	 * kvc_pool_open stops and returns -KV_ECANCELED. May be NULL. */
	bool (*opening)(void *arg, unsigned clients_open, unsigned clients_up);
	void *opening_arg;
	enum kvc_mode mode;
	enum kvc_numa numa;
	enum kvc_door door;
	/* With certificates. A server's certificate needs the extended key usage serverAuth. One of its subject
	 * alternative names must be the host in the server's entry of `servers`, as written there: a DNS name or an IP
	 * address. If server_name is set, every server's certificate must have this name instead. */
	const char *server_name;
	/* With certificates. PEM file of revocation lists, one for every CA in the servers' chains. It is read again
	 * when it changes. An expired list refuses every server. NULL: revocation is not checked. */
	const char *crl_file;
	/* Called when a pin is lost: its connection ended and it could not be set again, or it could not follow its key
	 * to another server: the value is gone, that server has no room, or five attempts to copy it have failed within
	 * settle_ns. To keep the value, store and pin it again. The function runs on the client's loop: it must return
	 * at once and make no call of the library. The key is valid until it returns. session: the pin's session; NULL:
	 * the client's own. The counter pins_lost and the log report the loss in any case. */
	void (*pin_lost)(void *arg, struct kvc_client *client, const void *key, size_t key_len,
			 struct kvc_session *session);
	void *pin_lost_arg;
	/* 10 minutes; a day at most; 1: never. For this long after a change of the view a miss is retried at the key's
	 * previous server. See "The cluster". */
	uint64_t settle_ns;
	/* 256 MiB; 1: none. The rate, of all clients together, at which values found at a previous server are copied to
	 * the key's present one, in bytes per second. */
	uint64_t repair_bytes_s;
	/* The cluster's name (kv-server --cluster), with the characters of a server's name: a server of another
	 * cluster, or of none, refuses the pool. NULL or "": the name of most servers that answer. It changes if more
	 * than half of them have another one. Servers of other clusters are then not used. */
	const char *cluster;
	/* A server on this host (one kernel) shares its memory with its clients: GETs read values there, and PUTs write
	 * to a window of it. The path of its Unix socket as this process sees it, for containers that mount it at
	 * another place; NULL: the name that the server reports. */
	enum kvc_local local;
	const char *local_socket;
	/* The namespace of all keys of this pool, its sessions included: at most KVC_NAMESPACE_MAX bytes of UTF-8
	 * without control characters. NULL or "": the default one. (C++ reserves the word `namespace`.) */
	const char *namespace_name;
	/* The file of the keys that seal values: see "Sealed values". NULL: values are stored as they are. */
	const char *seal_key_file;
};

/* kvc_pool_open in full. It returns when all clients have their engines and buffers. The servers may come later. With
 * KVC_OPEN_WAIT it also waits until the first attempt to connect to each server has succeeded or failed. If one client
 * cannot be opened, all are closed and the call fails.
 * Blocks: while the provider opens endpoints and registers memory; up to 1 s to look up a server's name, because the
 * route to the first server decides which interface the fabric uses; with KVC_OPEN_WAIT up to connect_timeout_ns more;
 * after a failure up to 1 s to close.
 * Thread: host.
 * Owner: options are read during the call. *out is the caller's until kvc_pool_close.
 *
 * Servers that are down. A client avoids them, and tries to connect to them in the background, at least twice a second.
 * It sends the key's calls to the next server in the key's order, which depends on the key and the list alone. A call
 * in progress continues there, by the same deadline. The lost server's values are misses until they are put again, or
 * that server is back. If all servers are down, a call about a key returns the code of the key's own server at once:
 * -KV_EPEERDOWN (with KVC_DOWN_IS_MISS: a miss), -KV_EDENIED or -KV_EVERSION. A call to a server never reached before
 * waits for the first attempt, within its own deadline. A DELETE or TOUCH that a server missed is repeated there before
 * this client uses the server again. It is also sent to the servers that stood in for the key's own, as far as this
 * client noticed.
 *
 * The cluster. Servers may announce a view: an epoch and the members. A client follows the view that more than half of
 * the servers it reaches announce, whatever its epoch; with exactly half it keeps its present one. A newer epoch of the
 * same source is followed at once. docs/reference/members.md has the rules for other sources and for losses. One server
 * with a wrong list costs only its share of the keys.
 *   With a view, the members' node ids alone place keys. The client connects to new members, and gives up former ones
 * once no call needs them; no call fails because of a change. Of the list, one server must answer; if all members are
 * down, the list is asked again. A draining server gets no new values and is still asked after a miss. Each server
 * reports its own drain; the view reports that of others. For settle_ns after a change, GET, EXISTS and TTL retry a
 * miss at the key's previous server, two such servers at most. DELETE and TOUCH ask all previous servers in state UP,
 * and return the code of one that refuses or does not answer: the value may still be there. If GET finds a value there,
 * the client copies it in the background to the key's present server, with its remaining time to live, unless it is
 * longer than half of the receive buffer. The same retry helps a joining server, or one restarted less than settle_ns
 * ago. If the list placed keys before the first view came, it counts as the view before that one. Without a view the
 * list alone counts. Clients with different views miss each other's values, and never read wrong bytes.
 *
 * Two copies. With KVC_TWO_COPIES the first two servers in the key's order, without those down or draining, keep the
 * value. PUT returns when the first one has it; the client copies it to the second one in the background, from a piece
 * of the receive buffer. A value larger than an eighth of the buffer has one copy, and copies_dropped counts other
 * drops. GET asks the server with fewer requests in flight, and after a miss or a loss the other one; it repairs a
 * missing copy within repair_bytes_s. EXISTS asks both, TTL both after a miss, DELETE and TOUCH both. If the second
 * server refuses a DELETE, or does not answer in time, DELETE returns that code: the value may still be there. If that
 * server is down, the first one's answer counts. A DELETE or TOUCH waits for its own client's copy of the key, and
 * drops a copy that repairs a miss. Without a session, kvc_put, kvc_delete, kvc_touch, and batches of one PUT or DELETE
 * use one client of the pool for each key. A copy by another client does not outlive a DELETE: servers refuse it, and
 * of two values with different bytes they keep the younger. PIN keeps the first copy only.
 *   With KVC_HOT_COPIES PUT keeps one copy. The client copies a value that its server reports as hot to the key's
 * second server, in the background and within repair_bytes_s, and sends GETs to the one with fewer requests in flight,
 * until 30 s after the value has cooled down. EXISTS and TTL of such a key ask both after a miss. DELETE and TOUCH of
 * every key ask both. docs/reference/copies.md compares the two flags.
 *
 * Sealed values. With seal_key_file the client encrypts each value before it leaves this process, and decrypts and
 * checks it when it comes back: AES-256-GCM, in pieces of 64 KiB (docs/reference/sealed.md). Servers, networks and
 * disks have ciphertext only. A value sealed by another key, or stored under another name, in another namespace or in
 * an earlier generation of it, and a changed or shortened value, is -KV_ECORRUPT, even with KVC_NO_VERIFY. The same
 * bytes under the same name are stored as the same bytes, so PUT and its repetitions work as without sealing, except
 * that another first key of the file makes other bytes (-KV_EEXIST). The file (docs/guide/security.md) is read when the
 * pool opens. With KVC_SEAL_NAMES, names of keys are replaced by their HMAC under the key `names` of the file, which
 * stays the same when others change. Lengths and offsets of calls are those of the value. A value is 64 bytes longer
 * for each piece when stored, and at most 1 GiB then. GETs and PUTs copy: registered memory is never shown to servers.
 * Values cannot be borrowed: kvc_get_borrowed, kvc_put_borrow, kvc_borrow_await and items with a `borrowed` layout are
 * -KV_ENOTSUP. All pools that use a namespace seal, or none does.
 *
 * Effects on the process. At most four threads look up names; if name servers do not answer, they may live for half a
 * minute after the pool was closed. Closed descriptors 0 to 2 are opened on /dev/null, so that no file receives the
 * process's error output. A library loaded with dlopen may be unloaded after the last pool was closed, and loaded
 * again; dlclose leaves it in memory while a doorkeeper or such a thread needs it.
 *
 * Errors:
 *   -KV_EINVAL     an option, or a file of keys or certificates, cannot be used
 *   -KV_EDENIED    other users may read or write a file of keys
 *   -KV_ENOTSUP    no such provider or NIC; KVC_DOOR_REQUIRE or KVC_MODE_PULL is not possible here
 *   -KV_ELIMIT     a resource is short; the sentence names the limit and the command that raises it
 *   -KV_EPROVIDER  the provider failed
 *   -KV_ECANCELED  options->opening returned false
 * With KVC_OPEN_WAIT, if a client has no server:
 *   -KV_EINVAL     a server has another node id than the list says, or belongs to another cluster
 * else the code of its first failed attempt; the sentence also names another server's failure:
 *   -KV_EPEERDOWN, -KV_ETIMEOUT, -KV_EDENIED, -KV_EVERSION
 *   -KV_EFULL      the server admits no more clients, or none of this tenant
 *   -KV_ENOTSUP    KVC_MODE_PULL, which the server does not allow
 *   -KV_EPROTO     the server ended the connection, as one does that requires a key or certificate if none is given */

/* kvc_pool_close in full. Calls in progress return -KV_ECLOSED within the grace, whatever they wait for. Workers must
 * return. Then the clients say goodbye to the servers, and the threads end. A server has 1 s to answer the goodbye;
 * attempts to connect are abandoned.
 * Blocks: until the last worker and the last call have returned, and 1 s more at most. Thread: host; on a loop's thread
 * it does nothing.
 * Owner: *pool becomes NULL; pool and *pool may be NULL. Borrowed pieces, registrations and sessions end with the pool,
 * and must not be used afterwards. */

/* kvc_poll -- turn the loop of a pool without threads (KVC_NO_THREADS): do all ready work; if there is none, sleep
 * until there is, max_wait_ns at most (0: do not sleep; UINT64_MAX: no limit).
 *
 * The loop turns inside kvc_poll and inside every blocking call while that waits: those need no poll. Workers, pin_lost
 * and log run there, on the calling thread.
 *   Queues. kvc_submit_..., kvc_cancel and kvc_reap never turn the loop: poll, then reap. They may be called while
 * another thread polls, and wake it if it sleeps. Between polls an id makes no progress. An id that no poll has started
 * still ends: at its deadline the queue's descriptor becomes readable and kvc_reap returns it with -KV_ETIMEOUT, and
 * kvc_cancel ends it at once. An id that a poll has started ends only in a poll, even at its deadline or after
 * kvc_cancel: until then its memory is the library's. So a host with ids in progress polls every few milliseconds until
 * it has reaped them, or closes the queue.
 *   The pool. Between polls only time is lost. A server waits for a client without limit; a server that died is noticed
 * at the next polls. No descriptor signals when to poll.
 * Blocks: see above. Thread: host; any thread, one at a time; a blocking call waits for its turn, within its deadline.
 * Returns how many pieces of work were done; 0: none within max_wait_ns.
 * Errors:
 *   -KV_EINVAL     the pool has threads of its own; or the caller is one of its workers
 *   -KV_EBUSY      another thread is turning the loop
 *   -KV_ECLOSED    the pool is being closed by another thread: do not call again */
KVC_API int kvc_poll(struct kvc_pool *pool, uint64_t max_wait_ns);

/* kvc_call_bound_ns -- the longest time that a call of this pool may take, in nanoseconds: its timeout, the grace, a
 * second to rebuild endpoints on a busy machine, and on EFA the time until the provider releases memory of a dead peer.
 * For a watchdog over calls and queue ids: each has a result by then, except for the two delays under "Deadlines".
 *
 * timeout_ns: as in struct kvc_call; 0: the pool's. len_bytes: the bytes that the call may move, all items together;
 * used only if neither the call nor the pool specifies a timeout. The bound holds for calls that take a struct kvc_call
 * and for ids from their submission; with KVC_NO_THREADS, while the loop is turned. It does not hold for
 * kvc_drain_await without a timeout_ns, which waits until the end that the server announces.
 * Thread: any; never blocks.
 * Returns the bound, UINT64_MAX if it does not fit, and 0 without a pool and in a child of fork(), where calls return
 * at once. */
KVC_API uint64_t kvc_call_bound_ns(const struct kvc_pool *pool, uint64_t timeout_ns, uint64_t len_bytes);

/* kvc_num_clients -- how many clients the pool has: options.num_clients, or its default. NULL: 0. Thread: any; never
 * blocks. */
KVC_API unsigned kvc_num_clients(const struct kvc_pool *pool);
/* kvc_client_pool -- the pool of a client. NULL: NULL. Thread: any; never blocks. */
KVC_API struct kvc_pool *kvc_client_pool(struct kvc_client *client);

/* ---- memory ---- */

/* kvc_register in full. It registers [base, base + len_bytes) with every client and announces it to every server,
 * present and future: GETs into this memory and PUTs from it need no copy.
 *
 * The memory has any size and address; it must be mapped, readable and writable. It may consist of huge pages, belong
 * to a file (MAP_SHARED, in /dev/shm or a memfd), be mapped by other processes, be pinned by CUDA (cudaHostRegister,
 * cudaHostAlloc), or be registered with another pool. GPU memory is not supported. A process that maps the same memory
 * sees a value when the call has returned. Do not shorten a file: access behind its end raises SIGBUS, as does a full
 * /dev/shm. A pool has at most 256 registrations. They may adjoin. A value that crosses registrations is copied.
 * Blocks: until all connected servers have answered, within the pool's timeout for all of them, plus the time to pin
 * the pages: with NICs 0.1 to 1 s per GiB. A server without an answer by then is reconnected, and informed then. The
 * clients continue to work. A failure is undone, which takes the grace.
 * Thread: host.
 * Owner: the memory stays the caller's, and must stay mapped until kvc_unregister returned 0.
 * Errors: also the loop codes.
 *   -KV_EINVAL     it overlaps another registration of the pool, is not mapped, is not writable, or reaches beyond the
 *                  end of its file (detected from Linux 5.14 on): *err names the address
 *   -KV_ELIMIT     too many registrations, or a limit of the machine or the NIC is reached
 *   -KV_ENOMEM     the machine has no pages, or the NIC has no room
 *   -KV_EPROVIDER  the provider refuses the memory
 *   -KV_ETIMEOUT   a loop is stuck */

/* kvc_unregister in full. First every client stops using the memory, then the servers are informed.
 * Blocks: within the pool's timeout. A server without an answer by then is reconnected. Thread: host. Owner: on 0 *mem
 * becomes NULL and the memory may be unmapped. On failure *mem stays valid, and the memory must stay mapped. *mem may
 * be NULL: 0.
 * Errors:
 *   -KV_EBUSY      a call still uses it, or a loop's queue is full: call again
 *   -KV_ETIMEOUT   a loop is stuck: call again
 *   -KV_EINVAL     it is no registration of this pool */

/* ---- more calls about keys ----
 * Each reads its key during the call, and returns 0 or a code.
 * Parks: yes. Thread: worker. kvc_touch and kvc_ttl are for hosts, with the loop codes as well.
 * Errors: also the server codes.
 *   -KV_ENOTFOUND  as for kvc_delete_await */

/* kvc_touch_await -- set a value's time to live to call->ttl_s from now (0: the server's default). Counts as a use. */
KVC_API int kvc_touch_await(struct kvc_client *client, struct kvc_key key, const struct kvc_call *call);
KVC_API int kvc_touch(struct kvc_pool *pool, struct kvc_key key, const struct kvc_call *call);
/* kvc_ttl_await -- the remaining time to live of a value, in milliseconds; UINT64_MAX: it does not expire. Does not
 * count as a use. out_left_ms may be NULL. */
KVC_API int kvc_ttl_await(struct kvc_client *client, struct kvc_key key, uint64_t *out_left_ms,
			  const struct kvc_call *call);
KVC_API int kvc_ttl(struct kvc_pool *pool, struct kvc_key key, uint64_t *out_left_ms, const struct kvc_call *call);
/* kvc_pin_await -- protect a value from eviction, until it is unpinned, deleted or expires, or the pool (or
 * call->session) is closed.
 *
 * The key's present server keeps the pin. If only a previous or second server has the value, it is copied to the
 * present one first, within the deadline. After a reconnect the client pins the value again. When another server
 * becomes responsible for the key, the client copies the value there in the background, pins it there, and then removes
 * the former pin. A pin that cannot be kept is reported (kvc_options.pin_lost). A second pin adds nothing; one unpin
 * removes it.
 * Errors: also those above.
 *   -KV_EBUSY      also: beyond the server's budget. One session may pin a quarter of the memory of the key's shard,
 *                  and all sessions together half of it, or less if stages of PUTs and leases leave less */
KVC_API int kvc_pin_await(struct kvc_client *client, struct kvc_key key, const struct kvc_call *call);
/* kvc_unpin_await -- remove the pin of a value. While its server is down the call fails, but the pin is not set again.
 * */
KVC_API int kvc_unpin_await(struct kvc_client *client, struct kvc_key key, const struct kvc_call *call);

/* ---- namespaces ----
 * Every key belongs to a namespace: that of the pool (kvc_options.namespace_name). The same key in two namespaces is
 * two keys. A namespace begins with its first client; a server has room for 4,096.
 *
 * A namespace has a generation, which a clear advances. A value of an earlier generation is gone: no call finds it, no
 * server copies it, and its memory is freed within seconds. Values borrowed at that moment stay readable until they are
 * given back. */

enum {
	KVC_NAMESPACE_MAX = 64 /* bytes of a name */
};

/* kvc_namespace_clear_await -- clear the pool's namespace: its values are misses from now on, everywhere and for all
 * clients.
 *
 * After 0 no GET, EXISTS, copy or pin finds a value whose PUT had begun before this call. A PUT in progress, of any
 * client, returns 0 and its value is dropped, unless the PUT began after the clear. So does a PUT that began before,
 * but reaches its server later. A client that learns of the clear by such a PUT knows the time of the clear only to
 * within a round trip: a PUT that it begins within that time after the clear may be dropped as well.
 *   Every server of the cluster must confirm. If one does not, the call returns its code, and the others have cleared;
 * call again until it returns 0. A server that is down might be reachable for other clients, with its values, so the
 * call does not succeed without it; once the server has left the view, it counts no more. A name that nobody has used
 * is a namespace without values, and is cleared like any other; kvc_namespaces shows whether one has values.
 * out_generation: the new generation; NULL: not needed.
 * Parks: yes. Thread: worker. Returns 0 or a code.
 * Errors: also the server codes.
 *   -KV_ELEFT      a server has said goodbye, and is not back */
KVC_API int kvc_namespace_clear_await(struct kvc_client *client, uint64_t *out_generation, const struct kvc_call *call);
/* kvc_namespace_clear -- the same for hosts, with the loop codes as well. */
KVC_API int kvc_namespace_clear(struct kvc_pool *pool, uint64_t *out_generation, const struct kvc_call *call);

/* A namespace at one server. Counters begin when its first client comes. */
struct kvc_namespace {
	char name[72]; /* "": the default one */
	uint64_t generation;
	uint64_t blocks, bytes; /* stored, with those of earlier generations whose memory is not freed yet */
	uint64_t gets, hits;
	uint64_t tier_bytes; /* of values of this generation on the tier */
	uint64_t reserved[3];
};

/* kvc_namespaces_await -- list the namespaces of call->server, at most max, by name. kvc_namespaces is for hosts, with
 * the loop codes as well.
 * Parks: yes. Thread: worker. Owner: out is the caller's; NULL with max 0: only count.
 * Returns how many namespaces the server has, which may be more than max; or a code.
 * Errors: as kvc_ping_await. */
KVC_API int kvc_namespaces_await(struct kvc_client *client, struct kvc_namespace *out, unsigned max,
				 const struct kvc_call *call);
KVC_API int kvc_namespaces(struct kvc_pool *pool, struct kvc_namespace *out, unsigned max, const struct kvc_call *call);

/* ---- tenants ---- */

/* A tenant at one server (kv-server --tenants). Limits are the server's; UINT64_MAX: none. Counters begin when the
 * server first reads of the tenant. */
struct kvc_tenant {
	char name[72];
	uint64_t listed; /* 0: removed from the server's table; its values are being freed */
	uint64_t memory_bytes, memory_share, memory_cap;
	uint64_t tier_bytes, tier_cap;
	uint64_t pinned_bytes, pins_cap;
	uint64_t requests, requests_max; /* GETs and PUTs in flight */
	uint64_t read_bytes, read_rate;  /* by GETs: in all; at most a second */
	uint64_t sessions, namespaces;   /* open sessions; namespaces that it is charged for */
	uint64_t evictions, refused;     /* values evicted; requests and values beyond a limit */
	uint64_t reserved[8];
};

/* kvc_tenants_await -- list the tenants of call->server, at most max, by name: all of them for a client that may read
 * all namespaces, else its own. 0: the server runs without --tenants. kvc_tenants is for hosts, with the loop codes as
 * well.
 * Parks: yes. Thread: worker. Owner: out is the caller's; NULL with max 0: only count.
 * Returns how many there are, which may be more than max; or a code.
 * Errors: as kvc_ping_await. */
KVC_API int kvc_tenants_await(struct kvc_client *client, struct kvc_tenant *out, unsigned max,
			      const struct kvc_call *call);
KVC_API int kvc_tenants(struct kvc_pool *pool, struct kvc_tenant *out, unsigned max, const struct kvc_call *call);

/* ---- leases ---- */

/* A client on a server's host that holds leases: values that it borrows, or reads at this moment. */
struct kvc_lease_holder {
	char identity[72];           /* proved to the server, its first 64 bytes; "": the server needs no credential */
	uint64_t client_id, session; /* as in the server's log; a new connection has another session */
	uint64_t pid;                /* as the server sees it; 0: it does not, as in another container */
	uint64_t leases, bytes;      /* bytes: memory that cannot be evicted meanwhile */
	uint64_t age_ns;             /* of the oldest lease */
	uint64_t reserved[8];
};

/* kvc_leases_await -- list the clients on the host of call->server that hold leases, at most max, in the order of their
 * sessions. Leases over a fabric are not listed: they end by the server's --lease-ms. kvc_leases is for hosts, with the
 * loop codes as well.
 * Parks: yes. Thread: worker. Owner: out is the caller's; NULL with max 0: only count.
 * Returns how many there are, which may be more than max; or a code.
 * Errors: as kvc_ping_await; -KV_EDENIED: this client's tenant may not read all namespaces. */
KVC_API int kvc_leases_await(struct kvc_client *client, struct kvc_lease_holder *out, unsigned max,
			     const struct kvc_call *call);
KVC_API int kvc_leases(struct kvc_pool *pool, struct kvc_lease_holder *out, unsigned max, const struct kvc_call *call);

/* ---- sessions of logical clients ----
 * Each client has a session of its own at every server. A program that serves many users may open more, one for each
 * logical client, over the connections of the same client. At every server such a session has its own key, credits,
 * pins and goodbye, and its requests take turns with the others on the client's links. It costs no endpoint, region or
 * buffer, only some hundreds of bytes here. Its pins (kvc_pin_await with call->session) end with it. After a reconnect
 * the client opens it again by itself; a call that needs it waits for that, by its own deadline. */

struct kvc_session_options {
	size_t size;
	/* "identity:hex": the logical client's own key, which the server knows from --session-keys. NULL: the key or
	 * certificate with which the client connected is enough. */
	const char *psk;
	uint64_t client_id;  /* the server shows the session by this number; 0: the client's */
	uint64_t timeout_ns; /* 0: the pool's */
};

/* kvc_session_open_await -- open a session at every connected server; at the others it is opened once they are.
 *
 * Several workers may open sessions at the same time.
 * Parks: until it is open at all connected servers, by the timeout. Thread: worker.
 * Owner: options are read during the call; NULL: all defaults. *out is the caller's until kvc_session_close.
 * Errors: after a failure it is open nowhere.
 *   -KV_EDENIED    a server refuses the key or identity. After the fifth refusal within a minute the server ends the
 *                  client's whole connection: every call on it, of any session, returns -KV_EPEERDOWN or is retried on
 *                  the next connection
 *   -KV_EFULL      kv-server --max-clients or --max-sessions is reached, or a limit of the tenant
 *   -KV_EINVAL     options->psk is not "identity:hex"
 *   -KV_ENOTSUP    the server is of an older release, without sessions
 *   -KV_EPEERDOWN  no server is up
 *   -KV_EVERSION   no server is up, and the first of the list refuses this client (or -KV_EDENIED)
 *   -KV_ETIMEOUT   a server did not answer */
KVC_API int kvc_session_open_await(struct kvc_client *client, const struct kvc_session_options *options,
				   struct kvc_session **out, struct kv_error *err);

/* kvc_session_close_await -- say goodbye to the servers and free the session. Its calls must have returned.
 *
 * Parks: until the servers have confirmed, by the timeout (0: the pool's). Thread: worker of its client.
 * Owner: *session becomes NULL, unless nothing was done. *session may be NULL: 0. An open session ends with the pool,
 * and must not be used afterwards.
 * Errors:
 *   -KV_EBUSY      nothing was done: a call with the session is in progress; or it is being closed already; or its pins
 *                  are still being set again after a reconnect. While it is being closed, calls that begin with it
 *                  return -KV_EINVAL
 *   -KV_ECLOSED    the pool is being closed, and the session ends with it
 *   -KV_ETIMEOUT   it is closed here, but a server has not confirmed */
KVC_API int kvc_session_close_await(struct kvc_client *client, struct kvc_session **session, uint64_t timeout_ns);

/* kvc_session_open, kvc_session_close -- the same for hosts; the session is opened on the client of worker w. While it
 * is being closed, no call with the session may be in progress or begin.
 * Blocks: by the timeout. Thread: host.
 * Errors: also the loop codes; after these nothing was done. */
KVC_API int kvc_session_open(struct kvc_pool *pool, unsigned w, const struct kvc_session_options *options,
			     struct kvc_session **out, struct kv_error *err);
KVC_API int kvc_session_close(struct kvc_pool *pool, struct kvc_session **session, uint64_t timeout_ns);

struct kvc_session_info {
	size_t size;
	unsigned client;            /* the index of its client */
	bool open;                  /* at the requested server */
	int status;                 /* why it is not open: the server's refusal; 0: it is open, or still to be opened */
	uint32_t number;            /* by which the server knows it, within the client's connection */
	uint32_t credits;           /* requests without a reply that it may have at each shard */
	uint32_t credits_in_use;    /* at all shards together */
	uint32_t queued;            /* requests that wait for their turn */
	uint64_t requests, replies; /* at all servers together, since it was opened */
};

/* kvc_session_info -- the state of a session at server `server` (an index into options.servers).
 * Blocks: by the pool's timeout; not for a worker of the session's own loop. Thread: host, or such a worker.
 * Errors: also the loop codes.
 *   -KV_EINVAL     there is no such server, or it is no session of this pool */
KVC_API int kvc_session_info(struct kvc_pool *pool, struct kvc_session *session, unsigned server,
			     struct kvc_session_info *out);

/* ---- calls to one server ---- */

/* kvc_ping_await -- request an answer from each shard of call->server in turn (call->shard: from that one alone).
 * kvc_ping is for hosts, with the loop codes as well.
 * Parks: yes. Thread: worker. Returns 0 when all have answered.
 * Errors: also the server codes.
 *   -KV_EINVAL     there is no such server or shard
 *   -KV_ELEFT      the server has said goodbye, and is not back */
KVC_API int kvc_ping_await(struct kvc_client *client, const struct kvc_call *call);
KVC_API int kvc_ping(struct kvc_pool *pool, const struct kvc_call *call);

/* Statistics of a server. Over all its shards, counters and gauges are added up, and of maxima the largest is taken.
 * Strings are static. docs/reference/counters.md has a line about each item. */
enum kvc_stat_kind {
	KVC_STAT_COUNTER, /* only rises while the server runs */
	KVC_STAT_GAUGE,   /* as of now */
	KVC_STAT_MAXIMUM  /* since the server was started */
};
struct kvc_stat_item {
	const char *name;
	uint64_t value;
	const char *group; /* "requests", "answers", "time", "memory", "peers", "fabric", "tier" */
	const char *unit;  /* "", "bytes", "ns" */
	enum kvc_stat_kind kind;
	uint32_t reserved_32;
	uint64_t reserved[2];
};

/* kvc_stat_await -- read the statistics of call->server (call->shard: of that shard alone), at most max items. kvc_stat
 * is for hosts, with the loop codes as well.
 * Parks: yes. Thread: worker. Returns how many items were written.
 * Errors: as kvc_ping_await. */
KVC_API int kvc_stat_await(struct kvc_client *client, struct kvc_stat_item *out, unsigned max,
			   const struct kvc_call *call);
KVC_API int kvc_stat(struct kvc_pool *pool, struct kvc_stat_item *out, unsigned max, const struct kvc_call *call);

/* ---- events ----
 * Servers with kv-server --events keep a log of the values that they store and remove. A follower reads the logs of all
 * servers of a client: for routers, which send a request to where its prefix is. The events of one server have
 * consecutive numbers within an epoch, the life of its process. */

enum kvc_event_type {
	KVC_EVENT_STORED = 1, /* the server has a value of this key */
	KVC_EVENT_REMOVED,    /* it has none any more: evicted, deleted, expired, or damaged */
	/* The follower must forget all keys of the server (of the namespace, if one is named). With sequence 0 a
	 * snapshot follows: STORED for each value, then SYNCED. */
	KVC_EVENT_CLEARED,
	/* Events are missing before this one. With sequence 0 the server reports no events (kv-server --events). */
	KVC_EVENT_GAP,
	KVC_EVENT_SYNCED, /* a snapshot is complete, or a server that was AWAY is back with its log complete */
	KVC_EVENT_AWAY    /* the server cannot be reached, or is no member any more; its log will be continued */
};

enum kvc_tier { KVC_TIER_MEMORY, KVC_TIER_DISK };

struct kvc_event {
	uint64_t epoch, sequence; /* sequence 0: of a snapshot, which is not complete yet */
	const char *node;         /* the node id of the server, or its name in the list */
	const char *name_space;   /* of the key ("": the default one), or the one that was cleared ("": all) */
	struct kvc_key key;       /* of STORED and REMOVED */
	uint64_t bytes;           /* likewise: the length of the value */
	uint32_t type;            /* enum kvc_event_type */
	uint32_t tier;            /* enum kvc_tier */
	uint32_t server;          /* as in kvc_server_info */
	uint32_t reserved_32;
	uint64_t reserved[2];
};

/* How far a program has followed a server: its last event with a sequence. */
struct kvc_position {
	const char *node;
	uint64_t epoch, sequence;
};

enum kvc_events_flag {
	/* No snapshots: at first only new events; where some are missing, GAP, and those behind the gap. */
	KVC_EVENTS_NEW = 1
};

struct kvc_events_options {
	size_t size;
	unsigned flags; /* enum kvc_events_flag */
	/* Go on behind these. For an unnamed server, or one whose log does not reach back so far, the follower begins
	 * as at first. */
	unsigned num_since;
	const struct kvc_position *since;
};

struct kvc_events;

/* kvc_events_open_await -- begin to follow the servers of a client. A client has one follower at a time. It needs 64
 * KiB for each server.
 *
 * Parks: no. Thread: worker. Owner: options are copied. *out is the caller's until kvc_events_close; a follower still
 * open ends with the pool, and must not be used afterwards.
 * Errors:
 *   -KV_EBUSY      the client has a follower */
KVC_API int kvc_events_open_await(struct kvc_client *client, const struct kvc_events_options *options,
				  struct kvc_events **out, struct kv_error *err);

/* kvc_events_next_await -- the next events, at most max. A slow caller makes servers wait, not grow: if the log has
 * moved on, it gets a snapshot or a GAP.
 *
 * timeout_ns: how long to wait for the first one; 0: not at all. Parks: until there is one, by the timeout. Thread:
 * worker of the follower's client, one at a time.
 * Owner: out is the caller's; the memory behind its pointers is valid until the next call on the follower.
 * Returns how many were written; 0: none came in time.
 * Errors:
 *   -KV_EBUSY      another thread or worker is in a call on the follower */
KVC_API int kvc_events_next_await(struct kvc_events *events, struct kvc_event *out, unsigned max, uint64_t timeout_ns);

/* kvc_events_close_await -- end a follower. *events becomes NULL, and may be NULL. Parks: no. Thread: worker of its
 * client. Errors: -KV_EBUSY, as above. */
KVC_API int kvc_events_close_await(struct kvc_events **events);

/* kvc_events_open, kvc_events_next, kvc_events_close -- the same for hosts. The follower is opened on the first client
 * of the pool that has none.
 * Blocks: kvc_events_next by the timeout and the pool's, the others by the pool's. Thread: host. Errors: also the loop
 * codes. */
KVC_API int kvc_events_open(struct kvc_pool *pool, const struct kvc_events_options *options, struct kvc_events **out,
			    struct kv_error *err);
KVC_API int kvc_events_next(struct kvc_events *events, struct kvc_event *out, unsigned max, uint64_t timeout_ns);
KVC_API int kvc_events_close(struct kvc_events **events);

/* The bounds of a server's drain. 0: as the server's own options say. */
struct kvc_drain {
	size_t size;
	uint64_t time_ns;            /* from now to its end at the latest: whole milliseconds, a day at most */
	uint64_t bytes_s;            /* at which it may put values to the other servers */
	struct kvc_drained *drained; /* NULL, or with its size set: filled if the call returns 0 */
};

/* Why a value of a server that drained is at no other server. */
enum kvc_left {
	KVC_LEFT_TIME,        /* the drain's time was over */
	KVC_LEFT_FULL,        /* the other servers have no room for it */
	KVC_LEFT_UNREACHABLE, /* no other server that could take it answers */
	KVC_LEFT_ALONE,       /* the cluster has no other member that stays */
	KVC_LEFT_OFF,         /* the server's options forbid the push (--drain-mb 0) */
	KVC_LEFT_TOO_BIG,     /* it is larger than the other server allows */
	KVC_LEFT_DAMAGED,     /* its bytes do not have their checksum */
	KVC_LEFT_REFUSED,     /* the other server refused it: it may have deleted its key */
	KVC_LEFT_STUCK,       /* a thread of the server did not answer */
	KVC_LEFT_REASONS
};

/* The result of a drain. All values are at other servers if `values` is `of`. */
struct kvc_drained {
	size_t size;
	bool known;                      /* the server has reported it; else all fields below are 0 */
	uint64_t values, bytes;          /* values that other servers have, and their bytes */
	uint64_t of;                     /* `values`, and those that no other server has */
	uint64_t gone;                   /* further values, deleted or expired during the drain */
	uint64_t left[KVC_LEFT_REASONS]; /* `of` less `values`, by reason */
};

/* kvc_drain_await -- have call->server drain: it pushes its values to the other servers of its view, the hottest first,
 * finishes the requests that it has, says goodbye to all clients, and ends. For operators (kv-client drain); a server
 * needs --allow-drain.
 *
 * Returns 0 when the server has said goodbye: drain->drained reports how many of its values other servers have. Also
 * when a view of the cluster no longer has the server; the report is not known then. drain: NULL, or with its size set.
 * Without call->timeout_ns the deadline is 5 s after the end that the server names; the server must name it within the
 * pool's timeout. A call that ends early does not stop the drain.
 * Parks: yes. Thread: worker.
 * Errors: also the server codes.
 *   -KV_EINVAL     there is no such server
 *   -KV_ENOTSUP    the server allows no client to drain it
 *   -KV_EPEERDOWN  also: the server ended without a goodbye
 *   -KV_ELEFT      the server has said goodbye before, and is not back */
KVC_API int kvc_drain_await(struct kvc_client *client, const struct kvc_drain *drain, const struct kvc_call *call);

/* ---- what a pool runs on ---- */

struct kvc_info {
	size_t size;
	/* fabric, domain: libfabric's names, of the first client; wait: "fd" or "poll", how loops wait for the fabric;
	 * libfabric: its version; why: the reason for this provider. */
	char provider[64], fabric[64], domain[64], wait[16], libfabric[64], why[512];
	/* os_threads: that the pool has started; endpoints: of all clients; links: of all clients to connected servers;
	 * rails: of one client. */
	unsigned num_clients, os_threads, endpoints, links, rails, num_servers;
	uint64_t buffer_bytes;  /* all registered receive buffers */
	uint64_t message_bytes; /* all registered message buffers */
	/* chunk_bytes: the most that one data operation moves; eager_bytes: the largest message that the provider sends
	 * at once; tx_depth, cq_depth: operations that an endpoint and its completion queue take; credits: requests
	 * that a link may have in flight, of the link with the fewest; 0: no server is up. */
	uint32_t chunk_bytes, eager_bytes, tx_depth, cq_depth, credits;
	char security[16];   /* "psk", "certificate", "none" */
	char congestion[32]; /* congestion control of TCP connections accepted on loopback ("reno"); "": the system's */
	/* How values come from the connected servers: "push", "pull", "local" (all are on this host), or "mixed". */
	char mode[16];
	char memory[160]; /* the pages of the receive buffers: "256 MiB in 2 MiB pages" */
	/* The placement: "clients 0-3 on node 0; 4 of 4 threads bound to CPUs there", "one node", "off". */
	char numa[200];
	uint64_t register_ns; /* how long registering the buffers took, all clients together */
	char no_door[160];    /* why no doorkeeper guards the clients' fabric ports; "": one does */
};

/* kvc_info -- describe the pool: provider, endpoints, buffers. Returns 0 or a code. Thread: any; never blocks. */
KVC_API int kvc_info(struct kvc_pool *pool, struct kvc_info *out);

/* The kinds of calls in kvc_counters.results and kvc_completion.op. */
enum kvc_op {
	KVC_OP_GET,    /* every item of a batch counts as one */
	KVC_OP_PUT,    /* likewise */
	KVC_OP_EXISTS, /* a call, or a submitted item */
	KVC_OP_DELETE,
	KVC_OP_TOUCH, /* and kvc_ttl_await */
	KVC_OP_PIN,   /* and kvc_unpin_await */
	KVC_OP_PING,
	KVC_OP_STAT,
	KVC_OP_BORROW, /* kvc_borrow_await */
	KVC_OP_REGISTER,
	KVC_OP_CLEAR, /* kvc_namespace_clear_await */
	KVC_OPS,
	KVC_OPS_MAX = 16
};
/* kvc_opname -- the name of an operation, as "GET"; "?" if there is no such. The string is static. Thread: any. */
KVC_API const char *kvc_opname(enum kvc_op op);

/* Columns of kvc_counters.results: column 0 counts successes, column i the code -(1000 + i) (1: -KV_ETIMEOUT), and the
 * last one all other codes. */
enum { KVC_RESULT_OTHER = 31, KVC_RESULTS };
/* kvc_result_code -- the code that a column counts; 0 for the first and for the last one. Thread: any. */
KVC_API int kvc_result_code(unsigned column);

/* Counters of the whole pool since it was opened. Each is read by itself, so their moments differ slightly.
 * docs/reference/counters.md has a line about each. */
struct kvc_counters {
	size_t size;
	/* errors: operations that failed, without misses and put_conflicts: the sum over `results`. timeouts: those
	 * that returned -KV_ETIMEOUT. */
	uint64_t gets, puts, exists, deletes, hits, misses, errors, timeouts, retries, corrupt, reconnects, fences;
	uint64_t bytes_in, bytes_out, stale_immediates, bad_frames, eagain, cancels, quarantined_bytes;
	uint64_t requests;   /* sent to servers: a call may need several */
	uint64_t replies;    /* received for them */
	uint64_t room_waits; /* requests that waited for room: an entry, a piece of the buffer, immediates */
	uint64_t room_wait_ns, room_wait_max_ns; /* how long: the sum; the longest */
	uint64_t queue_ns, queue_max_ns; /* how long requests with room waited to be sent (for credits): sum; longest */
	uint64_t orphans;                /* requests whose caller gave up before they ended */
	uint64_t lost_connections;       /* attachments that ended without a goodbye */
	uint64_t slow;                   /* calls that took slow_ns or longer */
	uint64_t results[KVC_OPS_MAX][KVC_RESULTS];
	uint64_t pulls;         /* ranges of values read from servers' memory */
	uint64_t pulls_expired; /* late pulls: the lease had expired, and the range was requested again */
	uint64_t door_let_in;   /* connections to the clients' fabric ports that the doorkeeper admitted */
	uint64_t door_turned;   /* those that it refused */
	uint64_t door_aliens;   /* those that it ended because of their messages */
	uint64_t pins_again;    /* pins set again on a new connection */
	uint64_t pins_lost;     /* pins that could not be set again or moved: see kvc_options.pin_lost */
	uint64_t put_conflicts; /* PUTs (and items of batches) that returned -KV_EEXIST */
	/* Attachments made again, on the same control connection or on a new one. `reconnects` counts only the latter.
	 * */
	uint64_t reattaches;
	uint64_t failovers;     /* calls, and items of batches, that continued at another server when theirs was lost */
	uint64_t stand_ins;     /* times that another server was asked for a key because its own was down */
	uint64_t view_epoch;    /* of the view of the cluster; 0: there is none */
	uint64_t members;       /* servers in that view */
	uint64_t views_old;     /* views not followed on arrival: too few servers announce them */
	uint64_t views_doubted; /* views that could not be used, or not at once: see "The cluster" */
	uint64_t settle_hits;   /* misses whose value a former server had, after a change of the view */
	uint64_t settle_misses; /* misses for which a former server was asked in vain */
	uint64_t repairs;       /* values copied to their keys' present servers, and their bytes */
	uint64_t repair_bytes;
	uint64_t repairs_dropped; /* values not copied: too many waited, or the copy failed */
	uint64_t copies;          /* second copies made (KVC_TWO_COPIES, KVC_HOT_COPIES), and their bytes */
	uint64_t copy_bytes;
	uint64_t copies_dropped; /* second copies not made: their server was behind or lost, or there was no room */
	uint64_t second_hits;    /* misses at the one server of a value kept twice that the other one had */
	uint64_t view_resets;    /* views followed although they are not newer: their source began anew */
	/* Of the client with the most of these: servers that announce the view in force, and servers that announce any
	 * or none. See "The cluster". */
	uint64_t view_votes;
	uint64_t view_voters;
	uint64_t pins_moved;     /* pins that followed their keys to other servers */
	uint64_t copies_yielded; /* values deleted at one server because another one has a younger value */
	uint64_t deletes_owed;   /* DELETEs and TOUCHes sent later to an unreachable server */
	uint64_t local_gets;     /* values read in the memory of a server on this host, and their bytes */
	uint64_t local_bytes;
	uint64_t local_puts;     /* requests whose bytes were copied to the memory of a server on this host */
	uint64_t local_refusals; /* GETs for which such a server gave no lease: the fabric brought them */
	uint64_t local_leases;   /* borrowed values in the memory of such servers */
};

/* kvc_counters -- read the counters. Returns 0 or a code. Thread: any; never blocks. */
KVC_API int kvc_counters(struct kvc_pool *pool, struct kvc_counters *out);

/* kvc_metrics_text -- write the pool's counters as a page of metrics in Prometheus' text format 0.0.4, for a host to
 * append to its own: kvrail_client_... (docs/reference/counters.md). One pool's page has each name once, so a host with
 * several pools shows one, or adds labels.
 *
 * It reads counters as kvc_counters does. Thread: any; never blocks. buf may be NULL with cap 0.
 * Owner: buf is the caller's. The text is cut to cap bytes, and a 0 ends it.
 * Returns the length of the whole text, without the 0: if it is not less than cap, try again with more (16 KiB are
 * enough). Or a code. */
KVC_API int64_t kvc_metrics_text(struct kvc_pool *pool, char *buf, size_t cap);

/* kvc_counters_items -- write counters, as kvc_counters has read them, as items with name, group, unit and kind, at
 * most max of them. The name of a counter is like "gets". A cell of `results` is like "timeout" in the group "results
 * of GET"; it is left out if it is 0. Strings are static. Thread: any; never blocks.
 * Returns how many items were written.
 * Errors:
 *   -KV_EINVAL     counters->size is not that of the library's struct */
KVC_API int kvc_counters_items(const struct kvc_counters *counters, struct kvc_stat_item *out, unsigned max);

/* One server as one client of the pool sees it. CONNECTING: calls wait, for peer_timeout_ns if another server may stand
 * in; UP: calls run; DOWN: it is avoided, and attempts to connect continue; CLOSED: the client is closed. */
enum kvc_server_state { KVC_SERVER_CONNECTING, KVC_SERVER_UP, KVC_SERVER_DOWN, KVC_SERVER_CLOSED };

/* The state of a member of the cluster. JOINING: it has its share of the keys, and others are asked on its misses. UP.
 * DRAINING: it gets no new values, and is still asked. */
enum kvc_member_state { KVC_MEMBER_NONE, KVC_MEMBER_JOINING, KVC_MEMBER_UP, KVC_MEMBER_DRAINING };

struct kvc_server_info {
	size_t size;
	char name[336];   /* as in the list of servers: "NAME=HOST:PORT" or "HOST:PORT" */
	char node_id[64]; /* the node id that it announced; empty: it has none, or was never reached */
	enum kvc_server_state state;
	uint32_t session;         /* the server's number for the attachment */
	uint64_t incarnation;     /* changes when the server is restarted */
	uint32_t shards, links;   /* of the attachment; 0 while there is none */
	uint32_t credits_granted; /* of all links together */
	uint32_t credits_in_use;  /* by requests, cancels and pings in flight */
	uint32_t queued;          /* requests that wait for a credit */
	uint32_t inflight;        /* sent requests without a reply, or with writes still to come */
	uint64_t heard_ns;        /* how long ago the control connection last brought a message; UINT64_MAX: never */
	uint64_t ping_ns;         /* round trip of a PING over the slowest link, when the attachment was made */
	/* connects: control connections made (TCP, TLS); attaches: attachments made on them. */
	uint64_t connects, attaches;
	uint64_t attempts_failed; /* since the last attachment */
	uint64_t fences;          /* fences because of this server */
	char why[512];            /* why it is not UP: cause and remedy; empty while it is */
	uint32_t pull;            /* 1: the client reads its values (enum kvc_mode) */
	uint32_t links_up;        /* those of `links` that answer; the others carry nothing, and are pinged again */
	uint32_t put_way;         /* enum kvc_put_way: how values of more than 3 KiB get there */
	uint64_t avoided_ns;      /* how long others have stood in for it; 0: it is not DOWN */
	/* Its row in the view of the cluster. member: its node id there; empty: the view does not name this server, or
	 * there is no view, and the rest is zeroed. */
	char member[64];
	char zone[64];               /* empty: unknown */
	uint64_t member_incarnation; /* changes each time that the server starts; 0: unknown */
	uint32_t weight;             /* of its share of the keys, relative to the other members */
	enum kvc_member_state member_state;
	/* The view that this server announces, whether it is followed or not: its epoch and half of its digest, which
	 * distinguishes views. 0: none, or the server has not answered for 30 s. */
	uint64_t view_epoch, view_digest;
	uint32_t local; /* 1: on this host, and its memory is mapped here (enum kvc_local) */
	uint32_t reserved_32;
};

enum kvc_put_way {
	KVC_PUT_READ, /* the server reads them from the client's memory */
	/* They travel inside requests, at a fraction of GET's speed: the server has no landing area for this client,
	 * and with this provider it is not safe for it to read (docs/internals/providers.md). */
	KVC_PUT_INLINE,
	KVC_PUT_LAND /* the client writes them to memory of the server that only this client's PUTs use */
};

/* kvc_server_info -- server `server` as client `client` sees it, all at one moment. `server` is an index into
 * options.servers; members of a view beyond that list follow, at any number below servers_max. A server of the list
 * that the view has at another address (the list has a host's name) is that member, under the name in the list, also
 * for calls about a server.
 *
 * It asks no server: it waits only for its turn on the client's loop, some microseconds unless a worker or the
 * provider occupies that loop's thread.
 * Blocks: until the loop has answered, by the pool's timeout, and 5 s at most; not for a worker of that loop. Thread:
 * host, or such a worker.
 * kvc_server_info_within -- the same; blocks for wait_ns at most if that is shorter. For the text of an error, which
 * must not wait for a loop that stands still.
 * Return 0 or a code.
 * Errors: also the loop codes.
 *   -KV_EINVAL     there is no such client, and no server with this number or a higher one
 *   -KV_ENOTFOUND  no server has this number now
 *   -KV_ETIMEOUT   the loop has not answered by then */
KVC_API int kvc_server_info(struct kvc_pool *pool, unsigned client, unsigned server, struct kvc_server_info *out);
KVC_API int kvc_server_info_within(struct kvc_pool *pool, unsigned client, unsigned server, uint64_t wait_ns,
				   struct kvc_server_info *out);

/* One rail (a NIC, as one endpoint) of one client. */
struct kvc_rail_info {
	size_t size;
	char device[64];   /* its libfabric domain, and its IP address on tcp */
	uint32_t depth;    /* operations that may be in flight, on that rail of the client that takes the fewest */
	uint32_t inflight; /* operations in flight */
	/* Operations posted; messages and immediates that arrived. */
	uint64_t sends, receives, writes, reads, immediates;
	uint64_t bytes_written, bytes_read;
	uint64_t eagain;           /* times the provider took no more */
	uint64_t failed;           /* operations that completed with an error */
	uint64_t failures;         /* failures of the rail itself: it was rebuilt, or is out */
	uint64_t rebuild_failures; /* times that it could not be rebuilt */
	uint64_t peer_failures;    /* operations that failed because of the other side, or of the way there */
	int32_t numa_node;         /* of the NIC; -1: unknown */
	bool out;                  /* it is not used for now: another rail stands in for it, and it is tried again */
};

/* kvc_rail_info -- like kvc_server_info, but of rail `rail` of client `client`, which has kvc_info.rails of them. */
KVC_API int kvc_rail_info(struct kvc_pool *pool, unsigned client, unsigned rail, struct kvc_rail_info *out);

/* kvc_version -- the library's version, as "0.1.0". The string is static. Thread: any. */
KVC_API const char *kvc_version(void);

/* kvc_strerror, kvc_errname, kvc_errkey -- name any code that a call returned: as part of a sentence, as "KV_ETIMEOUT",
 * as "timeout". Never NULL; valid until this thread's next call of one of the three. Thread: any. */
KVC_API const char *kvc_strerror(int code);
KVC_API const char *kvc_errname(int code);
KVC_API const char *kvc_errkey(int code);

/* kvc_program_setup -- set libfabric's environment variables to KVRail's defaults, unless the user has set them.
 *
 * This only saves memory and time (docs/internals/providers.md). A process without the variables can still reach a
 * default server.
 * Thread: main() of a program, before it starts threads and before kvc_pool_open. A library must not call it. */
KVC_API void kvc_program_setup(void);

/* kvc_program_setup_many -- the same for a program that opens hundreds of clients with few operations each: it sets the
 * smallest queues that this library works with. */
KVC_API void kvc_program_setup_many(void);

#ifdef __cplusplus
#pragma GCC diagnostic pop
}
#endif
#endif
