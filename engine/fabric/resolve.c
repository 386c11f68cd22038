/* SPDX-License-Identifier: Apache-2.0 */
/* resolve.c -- verbs before libfabric 1.21: resolve a peer's address without waiting, before libfabric waits for it.
 *
 * The verbs provider of 1.17 to 1.20 connects inside the first posting, and blocks the loop's thread for 2 s if the
 * address does not answer. So we first ask the same part of the kernel (/dev/infiniband/rdma_cm) on a non-blocking
 * descriptor; until the answer, postings return -FI_EAGAIN.
 *
 * libfabric asks again at each reconnect, without notice. So our knowledge is valid until a posting succeeds, until an
 * operation there fails, and for KNOWN_NS after a refused posting, which is shorter than the 3 s after which the kernel
 * ends a connection. Only a connection that ends while idle can still cost the loop 2 s once. */
#include "engine/fabric/private.h"

#include <errno.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <netinet/in.h>
#include <rdma/rdma_user_cm.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ANSWER_MS = 2000, HANDLES_MAX = 1 << 16, ADDR_RESOLVED = 0 /* the first RDMA_CM_EVENT_ */ };
#define AGAIN_NS 100000000ull /* after an answer with an error */
#define KNOWN_NS 500000000ull

/* NEW --asked--> ASKED --the neighbour is there--> KNOWN --a posting succeeds--> OPEN
 *   ASKED --it is not there--> NEW; KNOWN --after KNOWN_NS--> NEW; OPEN --a posting is refused--> KNOWN
 *   KNOWN, OPEN --a posting or an operation fails--> NEW */
enum way_state { WAY_NEW, WAY_ASKED, WAY_KNOWN, WAY_OPEN };

struct way {
	enum way_state state;
	uint32_t id;       /* the kernel's, while WAY_ASKED */
	uint64_t again_ns; /* WAY_NEW: no question before this time; WAY_KNOWN: valid until then */
	bool any;          /* no IP address: libfabric handles it */
	struct sockaddr_storage to;
};

struct fab_resolve {
	int fd;
	struct sockaddr_storage from;
	struct way *ways; /* by handle */
	size_t nways;
};

static int command(const struct fab_resolve *r, uint32_t cmd, const void *in, size_t in_len, size_t out_len)
{
	uint8_t buf[sizeof(struct rdma_ucm_cmd_hdr) + sizeof(struct rdma_ucm_resolve_addr)];
	const struct rdma_ucm_cmd_hdr head = {.cmd = cmd, .in = (uint16_t)in_len, .out = (uint16_t)out_len};
	memcpy(buf, &head, sizeof(head));
	memcpy(buf + sizeof(head), in, in_len);
	size_t len = sizeof(head) + in_len;
	return write(r->fd, buf, len) == (ssize_t)len ? 0 : -1;
}

static uint64_t pointer(void *p)
{
	return (uint64_t)(uintptr_t)p;
}

/* The kernel drops events of an id whose uid is 0. */
static int id_create(const struct fab_resolve *r, uint64_t handle, uint32_t *out_id)
{
	struct rdma_ucm_create_id_resp resp = {0};
	const struct rdma_ucm_create_id in = {
		.uid = handle + 1, .response = pointer(&resp), .ps = RDMA_PS_TCP, .qp_type = IBV_QPT_RC};
	int rc = command(r, RDMA_USER_CM_CMD_CREATE_ID, &in, sizeof(in), sizeof(resp));
	*out_id = resp.id;
	return rc;
}

/* Drops its unread events as well. */
static void id_destroy(const struct fab_resolve *r, uint32_t id)
{
	struct rdma_ucm_destroy_id_resp resp = {0};
	const struct rdma_ucm_destroy_id in = {.response = pointer(&resp), .id = id};
	(void)command(r, RDMA_USER_CM_CMD_DESTROY_ID, &in, sizeof(in), sizeof(resp));
}

static uint16_t address_len(const struct sockaddr_storage *a)
{
	return a->ss_family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
}

static int id_resolve(const struct fab_resolve *r, uint32_t id, const struct sockaddr_storage *to)
{
	struct rdma_ucm_resolve_addr in = {
		.id = id, .timeout_ms = ANSWER_MS, .src_size = address_len(&r->from), .dst_size = address_len(to)};
	memcpy(&in.src_addr, &r->from, in.src_size);
	memcpy(&in.dst_addr, to, in.dst_size);
	return command(r, RDMA_USER_CM_CMD_RESOLVE_ADDR, &in, sizeof(in), 0);
}

/* An address without its port, which a question does not need. False: no IP address. */
static bool address_take(struct sockaddr_storage *out, const void *addr, size_t len)
{
	memset(out, 0, sizeof(*out));
	if (!addr || len < sizeof(struct sockaddr_in) || len > sizeof(*out))
		return false;
	memcpy(out, addr, len);
	if (out->ss_family == AF_INET)
		((struct sockaddr_in *)out)->sin_port = 0;
	else if (out->ss_family == AF_INET6 && len >= sizeof(struct sockaddr_in6))
		((struct sockaddr_in6 *)out)->sin6_port = 0;
	else
		return false;
	return true;
}

static void way_forget(const struct fab_resolve *r, struct way *w)
{
	if (w->state == WAY_ASKED)
		id_destroy(r, w->id);
	w->state = WAY_NEW;
}

void fab_resolve_close(struct fab *fab)
{
	struct fab_resolve *r = fab->resolve;
	if (!r)
		return;
	for (size_t i = 0; i < r->nways; i++)
		way_forget(r, &r->ways[i]);
	close(r->fd);
	free(r->ways);
	free(r);
	fab->resolve = NULL;
}

void fab_resolve_open(struct fab *fab)
{
	const struct fi_info *info = fab->info;
	struct sockaddr_storage from;
	struct fab_resolve *r;
	int fd;
	if (!fab_is_verbs(fab->quirk) || fi_version() >= FI_VERSION(1, 21) ||
	    !address_take(&from, info->src_addr, info->src_addrlen))
		return;
	fd = open("/dev/infiniband/rdma_cm", O_RDWR | O_NONBLOCK | O_CLOEXEC);
	r = fd >= 0 ? calloc(1, sizeof(*r)) : NULL;
	if (!r) {
		kv_info(fab->options.log,
			"%s: /dev/infiniband/rdma_cm: %s; a peer whose address does not answer blocks its loop for 2 s",
			fab->caps.domain, strerror(errno));
		if (fd >= 0)
			close(fd);
		return;
	}
	r->fd = fd;
	r->from = from;
	fab->resolve = r;
}

int fab_resolve_insert(struct fab *fab, uint64_t handle, const void *addr, size_t len)
{
	struct fab_resolve *r = fab->resolve;
	if (!r || handle >= HANDLES_MAX)
		return 0;
	if (handle >= r->nways) {
		size_t n = KV_MAX(2 * r->nways, (size_t)handle + 16);
		struct way *ways = realloc(r->ways, n * sizeof(*ways));
		if (!ways)
			return -KV_ENOMEM;
		memset(ways + r->nways, 0, (n - r->nways) * sizeof(*ways));
		r->ways = ways;
		r->nways = n;
	}
	struct way *w = &r->ways[handle];
	way_forget(r, w);
	w->again_ns = 0;
	w->any = !address_take(&w->to, addr, len);
	return 0;
}

void fab_resolve_remove(struct fab *fab, uint64_t handle)
{
	if (fab->resolve && handle < fab->resolve->nways)
		way_forget(fab->resolve, &fab->resolve->ways[handle]);
}

static void answers_take(struct fab_resolve *r, uint64_t now)
{
	struct rdma_ucm_event_resp event;
	const struct rdma_ucm_get_event in = {.response = pointer(&event)};
	memset(&event, 0, sizeof(event));
	while (command(r, RDMA_USER_CM_CMD_GET_EVENT, &in, sizeof(in), sizeof(event)) == 0) {
		struct way *w = event.uid - 1 < r->nways ? &r->ways[event.uid - 1] : NULL;
		if (!w || w->state != WAY_ASKED || w->id != event.id)
			continue;
		way_forget(r, w);
		w->state = event.event == ADDR_RESOLVED ? WAY_KNOWN : WAY_NEW;
		w->again_ns = now + (w->state == WAY_KNOWN ? KNOWN_NS : AGAIN_NS);
	}
}

static void ask(struct fab_resolve *r, struct way *w, uint64_t now)
{
	w->again_ns = now + AGAIN_NS;
	if (id_create(r, (uint64_t)(w - r->ways), &w->id))
		return;
	w->state = WAY_ASKED;
	if (id_resolve(r, w->id, &w->to))
		way_forget(r, w);
}

static struct way *way_of(struct fab_resolve *r, uint64_t handle)
{
	return handle < r->nways && !r->ways[handle].any ? &r->ways[handle] : NULL;
}

bool fab_resolve_known(struct fab *fab, uint64_t handle)
{
	struct fab_resolve *r = fab->resolve;
	struct way *w = way_of(r, handle);
	if (!w || w->state == WAY_OPEN)
		return true;
	uint64_t now = kv_clock_now(&kv_clock_monotonic);
	answers_take(r, now);
	if (w->state == WAY_KNOWN && now < w->again_ns)
		return true;
	if (w->state == WAY_KNOWN)
		way_forget(r, w);
	if (w->state == WAY_NEW && now >= w->again_ns)
		ask(r, w, now);
	return false;
}

void fab_resolve_posted(struct fab *fab, uint64_t handle, int rc)
{
	struct way *w = way_of(fab->resolve, handle);
	if (!w || (w->state != WAY_KNOWN && w->state != WAY_OPEN))
		return;
	if (rc == 0) {
		w->state = WAY_OPEN;
	} else if (rc != -FI_EAGAIN) {
		way_forget(fab->resolve, w);
		w->again_ns = 0;
	} else if (w->state == WAY_OPEN) {
		w->state = WAY_KNOWN;
		w->again_ns = kv_clock_now(&kv_clock_monotonic) + KNOWN_NS;
	}
}
