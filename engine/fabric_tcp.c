/* SPDX-License-Identifier: Apache-2.0 */
/* fabric_tcp.c -- what the tcp providers leave to the kernel's defaults: congestion control on loopback; what closing
 * their endpoints leaves behind; settings of theirs that are refused; and whether a doorkeeper can stand before their
 * ports.
 *
 * bbr, a common default, paces: it arms a timer for every segment, which on loopback, where nothing is ever lost and
 * nobody shares the path, was 18 % of all processor time of a run of 64 KiB GETs. reno, which every kernel has and
 * allows to every process, does not. So the listening socket of an endpoint bound to a loopback address is given reno;
 * the connections that it accepts inherit it. For GET the sender of the bytes is the server, always the accepting side,
 * because links are made by the client.
 *
 * Sockets that an endpoint connects itself are left alone: they exist only from the first message on, and a connection
 * that began with bbr goes on pacing after a change. They carry requests, and the bytes of PUTs.
 *
 * libfabric does not say which descriptor its listener is, so it is looked for among this process's: a TCP socket that
 * listens on exactly the address that fi_getname told. No two sockets of a network namespace listen on one address and
 * port (without SO_REUSEPORT, which libfabric does not use), so what is found is ours, and nothing but sockets that
 * listen is looked at twice. Not found is no error. The walk costs a system call per open file, once per endpoint.
 *
 * The tcp provider's own RDM endpoints (net of 1.17, tcp of 1.18 to 2.6) free their listener while connections that it
 * accepted, and that have not said who they are yet, still point to it: xnet_pep_close says so itself. They stay among
 * the domain's sockets, and the next poll of an endpoint rebuilt there, after a fence, follows the freed listener. So
 * before an endpoint is closed its listener and all connections that it accepted, which end with it anyway, are shut,
 * and the provider is polled until it has seen that and closed them: then nothing can point to the listener, and none
 * can come. The sockets are known by their local address, which is the listener's; what has it belongs to this endpoint
 * and is opened and closed by nobody but its own thread. Rejected: closing the domain with the endpoint, since the
 * regions in it must outlive a fence.
 *
 * Where the doorkeeper stands, a fence of one peer needs no new endpoint (fab_cut). The provider is told the end of
 * that peer's connections while it is polled: it may hold what it received in a buffer of its own while it waits for a
 * receive of ours to be posted. That is rare, and known; then the endpoint is rebuilt. */
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "engine/fabric_inside.h"

#define LOOPBACK_ALGORITHM "reno"

union address {
	struct sockaddr any;
	struct sockaddr_in in;
	struct sockaddr_in6 in6;
	struct sockaddr_storage room;
};

static bool is_loopback(const union address *a)
{
	if (a->any.sa_family == AF_INET)
		return ntohl(a->in.sin_addr.s_addr) >> 24 == 127;
	if (a->any.sa_family == AF_INET6)
		return IN6_IS_ADDR_LOOPBACK(&a->in6.sin6_addr);
	return false;
}

static bool same(const union address *a, const union address *b)
{
	if (a->any.sa_family != b->any.sa_family)
		return false;
	if (a->any.sa_family == AF_INET)
		return a->in.sin_port == b->in.sin_port && a->in.sin_addr.s_addr == b->in.sin_addr.s_addr;
	return a->in6.sin6_port == b->in6.sin6_port &&
	       memcmp(&a->in6.sin6_addr, &b->in6.sin6_addr, sizeof(a->in6.sin6_addr)) == 0;
}

static bool option_is(int fd, int option, int value)
{
	int got = 0;
	socklen_t len = sizeof(got);
	return getsockopt(fd, SOL_SOCKET, option, &got, &len) == 0 && got == value;
}

static bool listens_on(int fd, const union address *address)
{
	union address name = {0};
	socklen_t len = sizeof(name);
	return option_is(fd, SO_ACCEPTCONN, 1) && option_is(fd, SO_TYPE, SOCK_STREAM) &&
	       getsockname(fd, &name.any, &len) == 0 && same(&name, address);
}

/* Without /proc: one by one. */
static int listener_try(const union address *address)
{
	enum { TRIES = 65536 };
	for (int fd = 0; fd < TRIES; fd++)
		if (listens_on(fd, address))
			return fd;
	return -1;
}

/* The descriptor of this process that listens on the address; -1: none is seen. */
static int listener_find(const union address *address)
{
	DIR *dir = opendir("/proc/self/fd");
	struct dirent *entry;
	int found = -1;
	if (!dir)
		return listener_try(address);
	while (found < 0 && (entry = readdir(dir))) {
		char *end;
		long fd = strtol(entry->d_name, &end, 10);
		if (end != entry->d_name && !*end && listens_on((int)fd, address))
			found = (int)fd;
	}
	closedir(dir);
	return found;
}

static bool local_is(int fd, const union address *address)
{
	union address name = {0};
	socklen_t len = sizeof(name);
	return option_is(fd, SO_TYPE, SOCK_STREAM) && getsockname(fd, &name.any, &len) == 0 && same(&name, address);
}

/* Shut all sockets that have the address. Returns how many there are besides the listener. */
static unsigned shut_all(const union address *address, int listener)
{
	DIR *dir = opendir("/proc/self/fd");
	struct dirent *entry;
	unsigned connections = 0;
	if (!dir)
		return 0;
	while ((entry = readdir(dir))) {
		char *end;
		int fd = (int)strtol(entry->d_name, &end, 10);
		if (end == entry->d_name || *end || !local_is(fd, address))
			continue;
		connections += fd != listener;
		(void)shutdown(fd, SHUT_RDWR);
	}
	closedir(dir);
	return connections;
}

void fab_tcp_shut(struct fab *fab)
{
	enum { ROUNDS = 8 }; /* one is enough, unless there are thousands of connections */
	union address name = {0};
	size_t len = sizeof(name);
	if (fi_getname(&fab->ep->fid, &name, &len))
		return;
	int listener = listener_find(&name);
	for (int i = 0; i < ROUNDS && shut_all(&name, listener) > 0; i++)
		fab_drain(fab);
}

/* FI_OFI_RXM_DATA_AUTO_PROGRESS: a thread of rxm replaces connections at any time, also between two postings that must
 * be on one (split writes, caps.ordered). What the second one announces could have been lost with the first one's. */
static const char *auto_progress(const struct fab *fab)
{
	static const char *const on[] = {"1", "true", "yes", "on"};
	const char *set = fab->quirk->rxm ? getenv("FI_OFI_RXM_DATA_AUTO_PROGRESS") : NULL;
	for (unsigned i = 0; set && i < KV_COUNT(on); i++)
		if (strcasecmp(set, on[i]) == 0)
			return "FI_OFI_RXM_DATA_AUTO_PROGRESS";
	return NULL;
}

/* FI_TCP_ZEROCOPY_SIZE: when the kernel has no room to account for a zero-copy send (ENOBUFS, net.core.optmem_max) the
 * provider drops it, or what is left of it, and goes on with what was posted behind it on the same connection. */
static const char *zero_copy(const struct fab *fab)
{
	const char *name = strcmp(fab->quirk->short_name, "net") == 0 ? "FI_NET_ZEROCOPY_SIZE" : "FI_TCP_ZEROCOPY_SIZE";
	return getenv(name) ? name : NULL;
}

int fab_tcp_check(const struct fab *fab, struct kv_error *err)
{
	const char *name = NULL;
	if (fab->quirk->tcp)
		name = auto_progress(fab);
	if (fab->quirk->tcp && !name)
		name = zero_copy(fab);
	return name ? kv_fail(err, -KV_ENOTSUP,
			      "%s: with %s=%s libfabric may announce bytes that it did not deliver; unset it",
			      fab->caps.provider, name, getenv(name))
		    : 0;
}

void fab_tcp_settle(struct fab *fab)
{
	union address name = {0};
	size_t len = sizeof(name);
	char text[sizeof(fab->caps.congestion)] = "";
	socklen_t text_len = sizeof(text) - 1;
	int fd;

	fab->caps.congestion[0] = '\0';
	if (!fab->quirk->tcp || fi_getname(&fab->ep->fid, &name, &len) || !is_loopback(&name))
		return;
	fd = listener_find(&name);
	if (fd < 0)
		return;
	if (setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, LOOPBACK_ALGORITHM, strlen(LOOPBACK_ALGORITHM)))
		kv_debug(fab->options.log,
			 "%s: congestion control " LOOPBACK_ALGORITHM " is refused: %s; the default stays",
			 fab->caps.domain, strerror(errno));
	if (getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, text, &text_len) == 0)
		snprintf(fab->caps.congestion, sizeof(fab->caps.congestion), "%s", text);
}

/* ---- the doorkeeper ---- */

/* What a setting of the provider's would do to him; NULL: nothing. */
static const char *door_hindered(const struct fab *fab)
{
	const char *prefetch =
		strcmp(fab->quirk->short_name, "net") == 0 ? "FI_NET_PREFETCH_RBUF_SIZE" : "FI_TCP_PREFETCH_RBUF_SIZE";
	if (fab_env_is_on("FI_TCP_IO_URING") || fab_env_is_on("FI_NET_IO_URING"))
		return "with FI_TCP_IO_URING (FI_NET_IO_URING) libfabric takes connections past it; unset that";
	if (getenv(prefetch) && fab_env_number(prefetch, 0) < 2 * (uint64_t)GUARD_UNIT_MAX)
		return "FI_TCP_PREFETCH_RBUF_SIZE is below 8352, which it needs; unset that";
	return NULL;
}

/* Where nobody insists, once for a process with many endpoints is enough. */
static int door_none(struct fab *fab, const char *why, struct kv_error *err)
{
	snprintf(fab->caps.no_door, sizeof(fab->caps.no_door), "%s", why);
	if (fab->options.door == FAB_DOOR_REQUIRE)
		return kv_fail(err, -KV_ENOTSUP,
			       "%s: a doorkeeper is required for the fabric ports, and there can be none: %s "
			       "(docs/guide/security.md)",
			       fab->caps.provider, why);
	if (fab->options.door == FAB_DOOR_AUTO && fab->quirk->tcp && fab_census(fab->caps.domain) == 0)
		kv_warn(fab->options.log,
			"%s: no doorkeeper can stand before the fabric ports: %s; let a firewall keep strangers from "
			"them (docs/guide/security.md)",
			fab->caps.provider, why);
	return 0;
}

int fab_tcp_door(struct fab *fab, struct kv_error *err)
{
	enum guard_format format = fab->quirk->rxm ? GUARD_RXM : GUARD_XNET;
	const char *why;
	bool reads = fi_version() >= fab->quirk->read_safe_since || fab->options.reads_at_own_risk;
	if (!fab->quirk->tcp)
		return door_none(
			fab,
			"its connections are made by the device or by shared memory, not by sockets of this process",
			err);
	if (fab->options.door == FAB_DOOR_OFF)
		return door_none(fab, "it is turned off", err);
	why = door_hindered(fab);
	if (why)
		return door_none(fab, why, err);
	return door_create(format, reads, fab_eager_bytes(fab->quirk), fab->options.log, &fab->door, &why)
		       ? door_none(fab, why, err)
		       : 0;
}

int fab_tcp_listen(struct fab *fab, struct kv_error *err)
{
	union address name = {0};
	size_t len = sizeof(name);
	int fd;
	if (!fab->door)
		return 0;
	fd = fi_getname(&fab->ep->fid, &name, &len) ? -1 : listener_find(&name);
	fab->caps.peer_fence = fd >= 0 && door_listen(fab->door, fd, &name.any, (socklen_t)len) == 0;
	if (fab->caps.peer_fence)
		return 0;
	door_release(&fab->door);
	return door_none(fab, "libfabric's listening socket is not found among this process's", err);
}

/* Reading no completion makes the provider go on all the same, and takes its lock: a thread of its own that was
 * receiving has ended then. */
int fab_cut(struct fab *fab, const void *blob, size_t len)
{
	enum {
		ROUNDS = 256
	}; /* one or two are enough, unless there are hundreds of connections with something to say */
	struct fi_cq_data_entry none;
	bool loose = false;
	unsigned left;
	if (!fab->door || !fab->ep)
		return -KV_ENOTSUP;
	left = door_cut(fab->door, blob, len, &loose);
	for (unsigned i = 0; i < ROUNDS && left > 0; i++) {
		(void)fi_cq_read(fab->cq, &none, 0);
		left = door_cut(fab->door, blob, len, &loose);
	}
	return loose ? -EBUSY : 0;
}

void fab_uncut(struct fab *fab, const void *blob, size_t len)
{
	if (fab->door)
		door_mend(fab->door, blob, len);
}
