/* SPDX-License-Identifier: Apache-2.0 */
/* put.h -- a PUT, as calls and batches make it. Private to kvclient/. All of these on the client's loop; what does not
 * end in _await does not park. */
#ifndef KVRAIL_KVCLIENT_CALL_PUT_H
#define KVRAIL_KVCLIENT_CALL_PUT_H

#include "kvclient/call/call.h"

struct kvc_put {
	struct kvc_client *c;
	struct kvc_node *n;
	struct kvc_key key;
	const uint8_t *data;
	uint64_t len, checksum;
	bool summed, direct; /* the checksum is there; the server reads from `region` */
	bool inlined;        /* the server reads nothing: all bytes go in requests */
	struct kvc_sub *sub; /* whose call it is; NULL: the client's own session's */
	uint32_t region, ttl_s;
	uint64_t region_offset;
	struct kvc_client_mem *mem;
	uint64_t deadline_ns;
	struct kvc_wait own_wait, *wait;
};

/* kvc_put_init -- fill *p; data and key stay the caller's until kvc_put_fini. 0, -KV_EINVAL or -KV_ETOOBIG.
 * kvc_put_fini
 * -- let go of the registration that it uses. */
int kvc_put_init(struct kvc_put *p, struct kvc_client *c, struct kvc_key key, const void *data, uint64_t len,
		 const struct kvc_call *call, uint64_t deadline_ns);
void kvc_put_fini(struct kvc_put *p);
/* kvc_put_single -- whether it is one request. */
bool kvc_put_single(struct kvc_put *p);
/* kvc_put_issue_await -- send a range of it; stage: the server's, of the first reply, or 0. wait false: -KV_EBUSY
 * instead of waiting for room (the checksum and the copy of a large value may let others run). 0 and *out, which is the
 * caller's to release; -KV_ERESET: to be made anew from the first range; or a code. */
int kvc_put_issue_await(struct kvc_put *p, uint64_t offset, uint64_t length, uint64_t stage, bool wait,
			struct kvc_req **out);
/* kvc_put_all_await -- the whole PUT with ranges and retries. 0 or a code. */
int kvc_put_all_await(struct kvc_put *p);

/* kvc_put_count -- one more PUT that ended so. */
void kvc_put_count(struct kvc_client *c, int rc, uint64_t len);

#endif
