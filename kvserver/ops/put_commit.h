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

/* put_commit -- check a whole staged block (digest: of its bytes; checksum: that the client announced) and make it
 * visible. Returns the status for the client. The block is LIVE then, or still STAGED. *out_generation: of the value
 * that is visible. */
int32_t put_commit(struct shard *s, struct block *b, uint64_t digest, uint64_t checksum, uint32_t ttl_s,
		   uint64_t *out_generation);

/* put_compare -- `holder` has the key of a PUT already. OK, and *out_generation, if it is the same value; that was a
 * use of it, and it lives as long as the longer of both was to. Else EXISTS_OTHER. */
int32_t put_compare(struct shard *s, struct block *holder, uint64_t total, uint64_t checksum, uint32_t ttl_s,
		    uint64_t *out_generation);

/* put_error -- the status of an error of ours; a value of `total` bytes that there is no place for is counted and
 * logged. */
int32_t put_error(struct shard *s, uint64_t total, int error);

/* put_reply -- answer q, for which no request was made. put_answer -- answer q, whose request is r (it is freed) or
 * NULL (there is none). */
void put_reply(struct link *l, const struct wire_request *q, int32_t status, uint64_t generation);
void put_answer(struct link *l, const struct wire_request *q, struct request *r, int32_t status, uint64_t generation);

#endif
