/* SPDX-License-Identifier: Apache-2.0 */
/* tcp.c -- needs of the tcp providers beyond a row of the quirk table.
 *
 * The listener's descriptor is unknown from libfabric: it is the socket of this process that listens on the address of
 * fi_getname.
 *
 * Shutting. The tcp provider's own RDM endpoints (net of 1.17, tcp of 1.18 to 2.6) free their listener while accepted
 * connections still point to it (xnet_pep_close). So before an endpoint closes, its listener and all accepted
 * connections are shut, and the provider is polled until it has closed them.
 *
 * Cutting. With a doorkeeper, the provider is polled until it has seen the end of the cut peer's connections (fab_cut).
 * If bytes remain in a buffer of the provider, because no receive of ours is posted, the endpoint is rebuilt. */
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "engine/fabric/private.h"
#include "engine/door/pace.h"

union address {
	struct sockaddr any;
	struct sockaddr_in in;
	struct sockaddr_in6 in6;
	struct sockaddr_storage room;
};

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

/* Without /proc: try each descriptor. */
static int listener_try(const union address *address)
{
	enum { TRIES = 65536 };
	for (int fd = 0; fd < TRIES; fd++)
		if (listens_on(fd, address))
			return fd;
	return -1;
}

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

/* Shut all sockets with the address. Returns their number without the listener. */
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
	if (fi_getname(&fab->ends.ep->fid, &name, &len))
		return;
	int listener = listener_find(&name);
	for (int i = 0; i < ROUNDS && shut_all(&name, listener) > 0; i++)
		fab_drain(fab);
}

/* FI_OFI_RXM_DATA_AUTO_PROGRESS: a thread of rxm replaces connections at any time, even between two postings that must
 * share one (split writes, caps.ordered). The second could announce bytes lost with the first one's connection. */
static const char *auto_progress(const struct fab *fab)
{
	static const char *const on[] = {"1", "true", "yes", "on"};
	const char *set = fab->quirk->rxm ? getenv("FI_OFI_RXM_DATA_AUTO_PROGRESS") : NULL;
	for (unsigned i = 0; set && i < KV_COUNT(on); i++)
		if (strcasecmp(set, on[i]) == 0)
			return "FI_OFI_RXM_DATA_AUTO_PROGRESS";
	return NULL;
}

/* FI_TCP_ZEROCOPY_SIZE: when the kernel cannot account for a zero-copy send (ENOBUFS, net.core.optmem_max), the
 * provider drops all or part of it, and continues with the next posting on the same connection. */
static const char *zero_copy(const struct fab *fab)
{
	const char *name = fab->quirk->zerocopy_env;
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
	int fd, error;
	fab->caps.congestion[0] = '\0';
	if (!fab->quirk->tcp || fi_getname(&fab->ends.ep->fid, &name, &len) || !pace_loopback(&name.any))
		return;
	fd = listener_find(&name);
	if (fd < 0)
		return;
	error = pace_off(fd);
	if (error)
		kv_debug(fab->options.log, "%s: congestion control without pacing is refused: %s; the default stays",
			 fab->caps.domain, strerror(error));
	if (getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, text, &text_len) == 0)
		snprintf(fab->caps.congestion, sizeof(fab->caps.congestion), "%s", text);
}

/* ---- the doorkeeper ---- */

/* How a setting of the provider prevents the doorkeeper; NULL: no setting does. */
static const char *door_hindered(const struct fab *fab)
{
	const char *prefetch = fab->quirk->prefetch_env;
	if (fab_env_is_on("FI_TCP_IO_URING") || fab_env_is_on("FI_NET_IO_URING"))
		return "with FI_TCP_IO_URING (FI_NET_IO_URING) libfabric accepts connections without it; unset that";
	if (getenv(prefetch) && fab_env_number(prefetch, 0) < 2 * (uint64_t)GUARD_UNIT_MAX)
		return "FI_TCP_PREFETCH_RBUF_SIZE is below 8352, which it needs; unset that";
	return NULL;
}

/* tell: warn, unless the options require a doorkeeper. */
static int door_none(struct fab *fab, const char *why, bool tell, struct kv_error *err)
{
	snprintf(fab->caps.no_door, sizeof(fab->caps.no_door), "%s", why);
	if (fab->options.door == FAB_DOOR_REQUIRE)
		return kv_fail(
			err, -KV_ENOTSUP,
			"%s: the fabric ports require a doorkeeper, which is not possible: %s (docs/guide/security.md)",
			fab->caps.provider, why);
	if (fab->options.door == FAB_DOOR_AUTO && fab->quirk->tcp && tell)
		kv_warn(fab->options.log,
			"%s: the fabric ports have no doorkeeper: %s; "
			"let a firewall keep strangers out (docs/guide/security.md)",
			fab->caps.provider, why);
	return 0;
}

int fab_tcp_door(struct fab *fab, struct kv_error *err)
{
	enum guard_format format = fab->quirk->rxm ? GUARD_RXM : GUARD_XNET;
	const char *why;
	bool first = fab_census(fab->caps.domain) == 0; /* one warning per process */
	bool reads = fi_version() >= fab->quirk->read_safe_since || fab->options.reads_at_own_risk;
	if (!fab->quirk->tcp)
		return door_none(fab,
				 "it connects through the device or shared memory, not through sockets of this process",
				 first, err);
	if (fab->options.door == FAB_DOOR_OFF)
		return door_none(fab, "it is turned off", first, err);
	why = door_hindered(fab);
	if (why)
		return door_none(fab, why, first, err);
	return door_create(format, reads, fab_eager_bytes(fab->quirk), fab->options.log, &fab->door, &why)
		       ? door_none(fab, why, first, err)
		       : 0;
}

int fab_tcp_listen(struct fab *fab, struct kv_error *err)
{
	union address name = {0};
	size_t len = sizeof(name);
	int fd;
	if (!fab->door)
		return 0;
	fd = fi_getname(&fab->ends.ep->fid, &name, &len) ? -1 : listener_find(&name);
	fab->caps.peer_fence = fd >= 0 && door_listen(fab->door, fd, &name.any, (socklen_t)len) == 0;
	if (fab->caps.peer_fence)
		return 0;
	door_release(&fab->door);
	/* Of this endpoint alone; it may have had a doorkeeper until its rebuild. */
	return door_none(fab, "libfabric's listening socket was not found in this process", true, err);
}

/* Reading no completion still makes the provider progress. It takes the provider's lock, so a receiving thread of the
 * provider has finished. */
int fab_cut(struct fab *fab, const void *blob, size_t len)
{
	enum { ROUNDS = 256 }; /* one or two are enough, unless there are hundreds of busy connections */
	struct fi_cq_data_entry none;
	bool loose = false;
	unsigned left;
	if (!fab->door || !fab->ends.ep)
		return -KV_ENOTSUP;
	left = door_cut(fab->door, blob, len, &loose);
	for (unsigned i = 0; i < ROUNDS && left > 0; i++) {
		(void)fi_cq_read(fab->ends.cq, &none, 0);
		left = door_cut(fab->door, blob, len, &loose);
	}
	return loose ? -EBUSY : 0;
}

void fab_uncut(struct fab *fab, const void *blob, size_t len)
{
	if (fab->door)
		door_mend(fab->door, blob, len);
}
