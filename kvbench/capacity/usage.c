/* SPDX-License-Identifier: Apache-2.0 */
/* usage.c -- what a process uses, and what all processes have on the RDMA devices.
 *
 * The kernel counts queue pairs, completion queues and memory regions per device and tells them over netlink (what
 * `rdma resource show` prints). That is the truth where a library counts what it believes: rxm over verbs makes queue
 * pairs for each peer, which nobody asked it for. Without RDMA in the kernel there is no such socket, and nothing is
 * told. (<rdma/rdma_netlink.h> is the kernel's header; it has nothing to do with libfabric.) Rejected: running the rdma
 * tool, which may not be installed, from a process that has endpoints open. */
#include <dirent.h>
#include <fcntl.h>
#include <linux/netlink.h>
#include <poll.h>
#include <rdma/rdma_netlink.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "kvbench/capacity/capacity.h"

/* ---- a process ---- */

static uint32_t files_of(const char *proc)
{
	char path[64];
	uint32_t n = 0;
	DIR *d;

	snprintf(path, sizeof(path), "%s/fd", proc);
	d = opendir(path);
	if (!d)
		return 0;
	while (readdir(d))
		n++;
	closedir(d);
	return n > 2 ? n - 2 : 0;
}

void capacity_usage_of(int pid, struct capacity_usage *out)
{
	unsigned long long kib = 0;
	char proc[32], path[64], line[256];
	unsigned threads = 0;
	FILE *f;

	memset(out, 0, sizeof(*out));
	if (pid)
		snprintf(proc, sizeof(proc), "/proc/%d", pid);
	else
		snprintf(proc, sizeof(proc), "/proc/self");
	snprintf(path, sizeof(path), "%s/status", proc);
	f = fopen(path, "re");
	if (!f)
		return;
	while (fgets(line, sizeof(line), f)) {
		if (sscanf(line, "VmRSS: %llu", &kib) == 1)
			out->rss = kib << 10;
		if (sscanf(line, "Threads: %u", &threads) == 1)
			out->threads = threads;
	}
	fclose(f);
	out->fds = files_of(proc);
	if (!pid && out->fds > 0)
		out->fds--; /* the descriptor of the walk */
}

/* ---- the devices ---- */

enum { ANSWER_BYTES = 32768, ANSWER_MS = 200 };

/* The next attribute of a payload; false at its end. *at and *left move on. */
static bool attribute_next(const uint8_t **at, size_t *left, unsigned *out_type, const uint8_t **out, size_t *out_len)
{
	struct nlattr a;
	size_t step;

	if (*left < sizeof(a))
		return false;
	memcpy(&a, *at, sizeof(a));
	if (a.nla_len < sizeof(a) || a.nla_len > *left)
		return false;
	*out_type = a.nla_type & NLA_TYPE_MASK;
	*out = *at + sizeof(a);
	*out_len = a.nla_len - sizeof(a);
	step = KV_MIN((size_t)NLA_ALIGN(a.nla_len), *left);
	*at += step;
	*left -= step;
	return true;
}

static void entry_add(const char *name, uint64_t count, struct capacity_rdma *sum)
{
	int64_t *to = strcmp(name, "qp") == 0   ? &sum->qps
		      : strcmp(name, "cq") == 0 ? &sum->cqs
		      : strcmp(name, "mr") == 0 ? &sum->mrs
						: NULL;

	if (to)
		*to = KV_MAX(*to, 0) + (int64_t)count;
}

static void entry_parse(const uint8_t *at, size_t left, struct capacity_rdma *sum)
{
	const uint8_t *value;
	char name[16] = "";
	uint64_t count = 0;
	unsigned type;
	size_t len;

	while (attribute_next(&at, &left, &type, &value, &len)) {
		if (type == RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY_NAME)
			snprintf(name, sizeof(name), "%.*s", (int)KV_MIN(len, sizeof(name) - 1), (const char *)value);
		if (type == RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY_CURR && len == sizeof(count))
			memcpy(&count, value, sizeof(count));
	}
	entry_add(name, count, sum);
}

static void summary_parse(const uint8_t *at, size_t left, struct capacity_rdma *sum)
{
	const uint8_t *value;
	unsigned type;
	size_t len;

	while (attribute_next(&at, &left, &type, &value, &len))
		if (type == RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY)
			entry_parse(value, len, sum);
}

bool capacity_rdma_parse(const void *payload, size_t len, struct capacity_rdma *sum)
{
	const uint8_t *at = payload, *value;
	size_t left = len, value_len;
	unsigned type;

	while (attribute_next(&at, &left, &type, &value, &value_len))
		if (type == RDMA_NLDEV_ATTR_RES_SUMMARY)
			summary_parse(value, value_len, sum);
	return left == 0;
}

static bool ask(int fd)
{
	struct nlmsghdr h = {.nlmsg_len = sizeof(h),
			     .nlmsg_type = RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, RDMA_NLDEV_CMD_RES_GET),
			     .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP,
			     .nlmsg_seq = 1};
	const struct sockaddr_nl kernel = {.nl_family = AF_NETLINK};

	return sendto(fd, &h, sizeof(h), 0, (const struct sockaddr *)&kernel, sizeof(kernel)) == (ssize_t)sizeof(h);
}

/* Whether more messages are to come. */
static bool messages_take(const uint8_t *at, size_t left, struct capacity_rdma *sum)
{
	struct nlmsghdr h;

	while (left >= sizeof(h)) {
		memcpy(&h, at, sizeof(h));
		if (h.nlmsg_len < sizeof(h) || h.nlmsg_len > left || h.nlmsg_type == NLMSG_DONE ||
		    h.nlmsg_type == NLMSG_ERROR)
			return false;
		capacity_rdma_parse(at + sizeof(h), h.nlmsg_len - sizeof(h), sum);
		if (!(h.nlmsg_flags & NLM_F_MULTI))
			return false;
		at += KV_MIN((size_t)NLMSG_ALIGN(h.nlmsg_len), left);
		left -= KV_MIN((size_t)NLMSG_ALIGN(h.nlmsg_len), left);
	}
	return true;
}

void capacity_rdma_count(struct capacity_rdma *out)
{
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_RDMA);
	uint8_t *buf = malloc(ANSWER_BYTES);

	*out = (struct capacity_rdma){-1, -1, -1};
	if (fd >= 0 && buf && ask(fd)) {
		struct pollfd p = {.fd = fd, .events = POLLIN};
		ssize_t n = 1;
		while (n > 0 && poll(&p, 1, ANSWER_MS) > 0) {
			n = recv(fd, buf, ANSWER_BYTES, 0);
			if (n > 0 && !messages_take(buf, (size_t)n, out))
				break;
		}
	}
	free(buf);
	if (fd >= 0)
		close(fd);
}
