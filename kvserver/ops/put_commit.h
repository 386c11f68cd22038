/* SPDX-License-Identifier: Apache-2.0 */
/* put_commit.h -- the end of a PUT: commit, comparison with the existing value, refusal, reply. The shard's thread;
 * nothing parks. */
#ifndef KVRAIL_KVSERVER_OPS_PUT_COMMIT_H
#define KVRAIL_KVSERVER_OPS_PUT_COMMIT_H

#include <stdbool.h>
#include <stdint.h>

struct block;
struct link;
struct request;
struct shard;
struct wire_request;

/* No statuses. YOUNGER: the copy replaces the existing value. CLEARED: its namespace was cleared since it began.
 * UNKNOWN: only its last range shows whether it is the existing value. */
enum { PUT_YOUNGER = -1, PUT_CLEARED = -2, PUT_UNKNOWN = -3 };

/* put_born -- the birth time of a copy's value, by the shard's clock; 0: q is no copy. */
uint64_t put_born(const struct shard *s, const struct wire_request *q);

/* put_commit -- check a whole staged block (digest: of its bytes; checksum: announced by the client) and make it
 * visible. born_ns: put_born. Returns the status for the client, or PUT_CLEARED; the block is LIVE then, or still
 * STAGED. *out_generation: of the visible value. */
int32_t put_commit(struct shard *s, struct block *b, uint64_t digest, uint64_t checksum, uint32_t ttl_s,
		   uint64_t born_ns, uint64_t *out_generation);

/* put_compare -- `holder` has the key of a PUT already. OK and *out_generation for the same value, which counts as a
 * use and, unless q is a copy, extends its life to the longer of both. Else EXISTS_OTHER; for a copy PUT_YOUNGER or
 * DELETED, according to the younger value. PUT_UNKNOWN: q has no checksum yet. */
int32_t put_compare(struct shard *s, struct block *holder, const struct wire_request *q, uint64_t *out_generation);

/* put_allowed -- whether a copy is young enough: OK, DELETED, or CANCELED if unsure. */
int32_t put_allowed(struct shard *s, const struct wire_request *q, uint64_t now_ns);

/* put_error -- the status of an error of ours; a value of `total` bytes without room is counted and logged. */
int32_t put_error(struct shard *s, uint64_t total, int error);

/* put_space -- bring the namespace up to the generation that q names. False: q is of an earlier one (PUT_CLEARED). */
bool put_space(struct link *l, const struct wire_request *q, uint64_t now_ns);

/* put_reply -- answer q, which has no request. put_answer -- answer q with its request r (freed), or NULL (none). Both
 * take PUT_CLEARED as well. */
void put_reply(struct link *l, const struct wire_request *q, int32_t status, uint64_t generation);
void put_answer(struct link *l, const struct wire_request *q, struct request *r, int32_t status, uint64_t generation);

#endif
