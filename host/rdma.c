/* SPDX-License-Identifier: Apache-2.0 */
/* rdma.c -- the kernel's resource tracking, as `rdma resource show` prints it.
 *
 * Over netlink the kernel reports queue pairs, completion queues and memory regions of each device, also those that rxm
 * makes on its own over verbs. Without RDMA there is no such socket. (<rdma/rdma_netlink.h> is the kernel's, not
 * libfabric's.) */
#include "host/rdma.h"

#include <linux/netlink.h>
#include <rdma/rdma_netlink.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "host/limits.h"

enum { ANSWER_BYTES = 32768, ANSWER_MS = 500 };

typedef void attr_fn(uint16_t type, const void *data, size_t len, void *arg);

static void attrs_each(const void *at, size_t len, attr_fn *fn, void *arg)
{
	const uint8_t *p = at;
	struct nlattr a;
	while (len >= NLA_HDRLEN) {
		memcpy(&a, p, sizeof(a));
		if (a.nla_len < NLA_HDRLEN || a.nla_len > len)
			return;
		fn(a.nla_type & NLA_TYPE_MASK, p + NLA_HDRLEN, a.nla_len - NLA_HDRLEN, arg);
		size_t step = KV_MIN((size_t)NLA_ALIGN(a.nla_len), len);
		p += step;
		len -= step;
	}
}

static void text_of(const void *data, size_t len, char *out, size_t cap)
{
	snprintf(out, cap, "%.*s", (int)KV_MIN(len, cap - 1), (const char *)data);
}

struct entry {
	char name[16];
	uint64_t count;
};

static void entry_attr(uint16_t type, const void *data, size_t len, void *arg)
{
	struct entry *e = arg;
	if (type == RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY_NAME)
		text_of(data, len, e->name, sizeof(e->name));
	if (type == RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY_CURR && len >= sizeof(e->count))
		memcpy(&e->count, data, sizeof(e->count));
}

static void summary_attr(uint16_t type, const void *data, size_t len, void *arg)
{
	struct kv_rdma_used *used = arg;
	struct entry e = {.count = KV_UNKNOWN};
	if (type != RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY)
		return;
	attrs_each(data, len, entry_attr, &e);
	if (strcmp(e.name, "qp") == 0)
		used->qps = e.count;
	if (strcmp(e.name, "cq") == 0)
		used->cqs = e.count;
	if (strcmp(e.name, "mr") == 0)
		used->mrs = e.count;
}

static void device_attr(uint16_t type, const void *data, size_t len, void *arg)
{
	struct kv_rdma_used *used = arg;
	if (type == RDMA_NLDEV_ATTR_DEV_NAME)
		text_of(data, len, used->device, sizeof(used->device));
	if (type == RDMA_NLDEV_ATTR_RES_SUMMARY)
		attrs_each(data, len, summary_attr, used);
}

void kv_rdma_used_parse(const void *payload, size_t len, struct kv_rdma_used *out)
{
	*out = (struct kv_rdma_used){.qps = KV_UNKNOWN, .cqs = KV_UNKNOWN, .mrs = KV_UNKNOWN};
	attrs_each(payload, len, device_attr, out);
}

/* False: the answer has ended. */
static bool messages_read(const uint8_t *at, size_t len, void (*fn)(const struct kv_rdma_used *, void *), void *arg)
{
	struct kv_rdma_used used;
	struct nlmsghdr h;
	while (len >= sizeof(h)) {
		memcpy(&h, at, sizeof(h));
		if (h.nlmsg_len < sizeof(h) || h.nlmsg_len > len || h.nlmsg_type == NLMSG_DONE ||
		    h.nlmsg_type == NLMSG_ERROR)
			return false;
		kv_rdma_used_parse(at + NLMSG_HDRLEN, h.nlmsg_len - NLMSG_HDRLEN, &used);
		fn(&used, arg);
		size_t step = KV_MIN((size_t)NLMSG_ALIGN(h.nlmsg_len), len);
		at += step;
		len -= step;
	}
	return true;
}

void kv_rdma_used_each(void (*fn)(const struct kv_rdma_used *used, void *arg), void *arg)
{
	const struct timeval patience = {.tv_usec = ANSWER_MS * 1000};
	struct nlmsghdr ask = {.nlmsg_len = NLMSG_HDRLEN,
			       .nlmsg_type = RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, RDMA_NLDEV_CMD_RES_GET),
			       .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP};
	uint8_t *answer = malloc(ANSWER_BYTES);
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_RDMA);
	ssize_t len = -1;
	if (fd >= 0 && answer && setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)) == 0)
		len = send(fd, &ask, sizeof(ask), 0);
	while (len > 0 && (len = recv(fd, answer, ANSWER_BYTES, 0)) > 0)
		if (!messages_read(answer, (size_t)len, fn, arg))
			break;
	if (fd >= 0)
		close(fd);
	free(answer);
}
