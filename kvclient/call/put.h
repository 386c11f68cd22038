/* SPDX-License-Identifier: Apache-2.0 */
/* put.h -- a PUT, as calls and batches make it. Private to kvclient/. */
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

int kvc_put_init(struct kvc_put *p, struct kvc_client *c, struct kvc_key key, const void *data, uint64_t len,
		 const struct kvc_call *call, uint64_t deadline_ns);
void kvc_put_fini(struct kvc_put *p);
/* kvc_put_single -- whether it is one request. kvc_put_issue_await -- send a range of it. */
bool kvc_put_single(struct kvc_put *p);
int kvc_put_issue_await(struct kvc_put *p, uint64_t offset, uint64_t length, uint64_t stage, bool wait,
			struct kvc_req **out);
int kvc_put_all_await(struct kvc_put *p);

/* kvc_put_count -- one more PUT that ended so. */
void kvc_put_count(struct kvc_client *c, int rc, uint64_t len);

#endif
