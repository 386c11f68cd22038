/* SPDX-License-Identifier: Apache-2.0 */
/* put_commit.h -- how a PUT ends: commit, comparison with the value that is there, refusal, reply. The shard's thread;
 * nothing parks. */
#ifndef KVRAIL_KVSERVER_OPS_PUT_COMMIT_H
#define KVRAIL_KVSERVER_OPS_PUT_COMMIT_H

#include <stdint.h>

struct block;
struct link;
struct request;
struct shard;
struct wire_request;

enum { PUT_YOUNGER = -1 }; /* not a status: the copy takes the place of the value that is there */

/* put_born -- when the value of q was born, if it is a copy, in the shard's clock; 0: a client stores it now. */
uint64_t put_born(const struct shard *s, const struct wire_request *q);

/* put_commit -- check a whole staged block (digest: of its bytes; checksum: that the client announced) and make it
 * visible. born_ns: put_born. Returns the status for the client. The block is LIVE then, or still STAGED.
 * *out_generation: of the value that is visible. */
int32_t put_commit(struct shard *s, struct block *b, uint64_t digest, uint64_t checksum, uint32_t ttl_s,
		   uint64_t born_ns, uint64_t *out_generation);

/* put_compare -- `holder` has the key of a PUT already. OK, and *out_generation, if it is the same value; that was a
 * use of it, and it lives as long as the longer of both was to, unless this is a copy. Else EXISTS_OTHER; or of a copy
 * PUT_YOUNGER or DELETED, by which of the two values is the younger one. */
int32_t put_compare(struct shard *s, struct block *holder, const struct wire_request *q, uint64_t *out_generation);

/* put_allowed -- whether a copy is not too old: OK, DELETED, or CANCELED if that is not certain. */
int32_t put_allowed(struct shard *s, const struct wire_request *q, uint64_t now_ns);

/* put_error -- the status of an error of ours; a value of `total` bytes that there is no place for is counted and
 * logged. */
int32_t put_error(struct shard *s, uint64_t total, int error);

/* put_reply -- answer q, for which no request was made. put_answer -- answer q, whose request is r (it is freed) or
 * NULL (there is none). */
void put_reply(struct link *l, const struct wire_request *q, int32_t status, uint64_t generation);
void put_answer(struct link *l, const struct wire_request *q, struct request *r, int32_t status, uint64_t generation);

#endif
