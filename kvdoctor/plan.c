/* SPDX-License-Identifier: Apache-2.0 */
/* plan.c -- the planned run: its two processes, their needs, and whether there is enough.
 *
 * The limits of a process (files, locked memory) are checked for each process; those of a device for both together,
 * since they share it; those of the machine for everything. Sums and checks are the engine's own (te_budget, kv_check),
 * which refuse a start. */
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include "host/host.h"
#include "kvdoctor/doctor.h"
#include "loop/loop.h"

enum {
	LOOPS_MAX = 4,         /* by default */
	SHARDS_OF_OTHERS = 4,  /* a server elsewhere is assumed to have kv-server's default */
	CLIENT_MESSAGES = 256, /* as in kvclient; below as in kvserver */
	SERVER_MESSAGES = 512,
	LOOP_FILES = 2,  /* a ring and its bell */
	BENCH_FILES = 3, /* of kv-bench with a server of its own: pipes to it */
	SERVER_FILES = 6,
	RINGS_MAX = 64,
	STACK_MAPPINGS = 2, /* of a coroutine: its stack, and the guard below it */
	OTHER_MAPPINGS = 1000,
	SMALL_PAGE = 4 << 10,
	HUGE_PAGE = 2 << 20,
	PAGE_ENTRY = 8 /* bytes of a page table */
};

#define SERVER_LANDING    ((uint64_t)128 << 20) /* --landing-mb */
#define ADDRESS_LIBRARIES ((uint64_t)64 << 20)
#define SIZE(n)           kv_size_format((n), (char[32]){0}, 32)
#define ADDRESS_THREAD    ((uint64_t)64 << 20)

static unsigned half_of_the_cores(const struct doctor *d)
{
	uint64_t cpus = KV_MIN((uint64_t)KV_MAX(d->host.cpus, 1u), d->host.cpus_group);
	return (unsigned)KV_MIN(KV_MAX(cpus / 2, (uint64_t)1), (uint64_t)LOOPS_MAX);
}

/* kvclient's default. */
static unsigned threads_of_clients(const struct doctor *d)
{
	const struct doctor_options *o = d->opt;
	unsigned automatic = strcasecmp(o->provider, "shm") == 0 ? LOOPS_MAX : half_of_the_cores(d);
	return KV_MIN(o->num_threads ? o->num_threads : automatic, o->num_clients);
}

/* ---- the source address, as kvclient finds it ---- */

static int route_to(const char *server, struct sockaddr_storage *out, struct kv_error *err)
{
	struct kv_server_entry entry;
	struct sockaddr_storage to;
	socklen_t to_len, len = sizeof(*out);
	int fd, rc = kv_server_entry_parse(server, &entry, err);
	if (rc == 0)
		rc = kv_hostport_resolve(&entry.at, &to, &to_len, err);
	if (rc)
		return rc;
	fd = socket(to.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	/* Connecting a datagram socket only looks up the route; it sends nothing. */
	if (fd < 0 || connect(fd, (struct sockaddr *)&to, to_len) || getsockname(fd, (struct sockaddr *)out, &len))
		rc = kv_fail(err, -KV_EPEERDOWN, "server %s: there is no route to it", entry.at.host);
	if (fd >= 0)
		close(fd);
	/* The port is that socket's and means nothing here. An IPv6 address has it in the same place. */
	((struct sockaddr_in *)out)->sin_port = 0;
	return rc;
}

/* Without --server the run stays on this machine and uses loopback. With RDMA devices, the user wants to know about
 * them: then the address stays open, and the engine takes theirs. */
static void source_find(struct doctor *d, struct sockaddr_storage *out)
{
	struct sockaddr_in *in = (struct sockaddr_in *)out;
	struct kv_error err = {0};
	memset(out, 0, sizeof(*out));
	if (d->opt->servers.count == 0) {
		if (d->num_rdma == 0) {
			in->sin_family = AF_INET;
			in->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
		}
		return;
	}
	for (unsigned i = 0; i < d->opt->servers.count; i++) {
		struct sockaddr_storage route = {0};
		if (route_to(d->opt->servers.item[i], i ? &route : out, &err)) {
			doctor_found(d, SECTION_RUN, KV_FAIL, "server", d->opt->servers.item[i], "server", "%s",
				     err.text);
			doctor_remedy(d, "see `getent hosts` and `ip route get ADDRESS`");
		}
	}
}

/* ---- roles ---- */

static void role_budget(struct role *r)
{
	r->load = (struct te_load){.engines = r->engines,
				   .region_bytes = r->region_bytes,
				   .peers = r->peers,
				   .threads = r->threads,
				   .files = r->files};
	r->options.engines = r->engines;
	r->rc = te_budget(&r->options, &r->load, &r->budget, &r->error);
}

/* The sum by which kv-server refuses a start, with its defaults. */
static void server_room(struct doctor *d)
{
	struct role *s = &d->server;
	unsigned places;
	uint64_t tier_bytes = doctor_tier(d, &places);
	const struct kv_footprint room = {.values_bytes = d->opt->memory_mb << 20,
					  .engines_bytes = te_budget_beside(&s->budget, &s->load),
					  .landing_bytes = kv_footprint_landing("", SERVER_LANDING),
					  .tier_bytes = tier_bytes,
					  .tier_drives = places * s->engines,
					  .clients = KV_FOOTPRINT_CLIENTS};
	if (places)
		doctor_found(d, SECTION_RUN, KV_OK, "tier_index", s->name, "memory of the tier",
			     "%s for index and buffers, with values of %s", SIZE(kv_footprint_tier(&room)),
			     SIZE(KV_FOOTPRINT_VALUE_MEAN));
	s->budget.process.memory_bytes = kv_footprint_need(&room);
}

/* Each engine of the client maps the memory for values of the server on its host, with page tables of its own. The
 * kernel may make huge pages later: only those of its pool are certain. */
static void map_room(struct doctor *d)
{
	struct role *c = &d->client;
	uint64_t mapped = d->opt->memory_mb << 20,
		 page = kv_huge_bytes(&d->host, true) >= mapped ? HUGE_PAGE : SMALL_PAGE;
	uint64_t bytes = (mapped + page - 1) / page * PAGE_ENTRY * c->engines;
	struct finding *f;
	c->budget.process.memory_bytes += bytes;
	f = doctor_found(d, SECTION_RUN, KV_OK, "page_tables", c->name, "page tables",
			 "%s at most, of %u client%s that map%s the %s of the server on their host, in pages of %s",
			 SIZE(bytes), c->engines, kv_plural(c->engines), c->engines == 1 ? "s" : "", SIZE(mapped),
			 SIZE(page));
	f->need = bytes;
	f->unit = "bytes";
}

static void roles_make(struct doctor *d)
{
	const struct doctor_options *o = d->opt;
	struct role *c = &d->client, *s = &d->server;
	unsigned shards = o->server_threads ? o->server_threads : half_of_the_cores(d);
	uint64_t shard_bytes = (o->memory_mb << 20) / shards;
	c->name = "kv-bench";
	s->name = "kv-server";
	c->present = true;
	s->present = o->servers.count == 0;
	c->engines = o->num_clients;
	c->threads = threads_of_clients(d);
	c->peers = s->present ? shards : o->servers.count * SHARDS_OF_OTHERS;
	c->region_bytes = o->buffer_mb << 20;
	c->files = (uint64_t)c->engines * KV_MAX(o->servers.count, 1u) + (uint64_t)c->threads * LOOP_FILES +
		   (s->present ? BENCH_FILES : 0);
	c->options = (struct te_options){
		.provider = o->provider, .nic = o->nic, .rails = o->rails, .messages = CLIENT_MESSAGES};
	source_find(d, &c->options.local);
	s->engines = s->threads = shards;
	s->peers = c->engines;
	s->region_bytes = KV_MAX(shard_bytes, (uint64_t)1 << 20);
	s->files = c->engines + (uint64_t)(shards + 1) * LOOP_FILES + SERVER_FILES;
	s->options = c->options;
	s->options.messages = s->options.receives = SERVER_MESSAGES;
	role_budget(c);
	if (s->present && c->rc == 0)
		role_budget(s);
	if (s->present && s->rc == 0)
		server_room(d);
	if (s->present && c->rc == 0)
		map_room(d);
	if (c->rc == 0 && (!s->present || s->rc == 0))
		return;
	doctor_found(d, SECTION_RUN, KV_FAIL, "provider", o->provider, "provider", "%s",
		     c->rc ? c->error.text : s->error.text);
	/* Other errors (NICs, rails) suggest the remedy themselves. */
	if ((c->rc ? c->rc : s->rc) != -KV_ENOTSUP || o->nic)
		return;
	if (getenv("FI_PROVIDER"))
		doctor_remedy(d, "`unset FI_PROVIDER`");
	else if (strcasecmp(o->provider, "auto") != 0)
		doctor_remedy(d, "use one that is present, or --provider auto");
	else
		doctor_remedy(d, "`fi_info -l` lists the providers that libfabric has, and `ip addr` the addresses of "
				 "this machine");
}

/* ---- checks ---- */

/* kv-server raises its own soft limit (kvserver/main.c). kv-bench does not: the user must do it before the start. */
uint64_t doctor_files_soft(const struct doctor *d, const struct role *r)
{
	uint64_t soft = d->host.files_soft, hard = d->host.files_hard;
	if (r != &d->server || soft == KV_UNKNOWN || hard == KV_UNKNOWN || soft >= DOCTOR_SERVER_FILES)
		return soft;
	return KV_MIN(hard, (uint64_t)DOCTOR_SERVER_FILES);
}

static void run_checks(struct doctor *d, const char *subject, const struct kv_checkup *c, unsigned scopes)
{
	struct kv_verdict v[KV_CHECKS_MAX];
	unsigned n = kv_check(c, scopes, v, KV_COUNT(v));
	for (unsigned i = 0; i < n; i++)
		doctor_verdict(d, SECTION_RUN, subject, &v[i]);
}

/* A device may have several addresses, and each is a candidate of its own. */
static bool same_device(const struct te_device *a, const struct te_device *b)
{
	return strcmp(a->domain, b->domain) == 0 && strcmp(a->local, b->local) == 0;
}

/* The needs of both processes together on a device. */
static struct kv_need need_of_device(const struct doctor *d, unsigned device)
{
	const struct te_budget_device *mine = &d->client.budget.device[device];
	const struct te_budget *s = &d->server.budget;
	struct kv_need sum = mine->need;
	for (unsigned i = 0; d->server.present && i < s->num_devices; i++)
		if (same_device(&s->device[i].device, &mine->device))
			kv_need_add(&sum, &s->device[i].need);
	return sum;
}

static void check_devices(struct doctor *d)
{
	const struct te_budget *b = &d->client.budget;
	for (unsigned i = 0; i < b->num_devices; i++) {
		struct kv_need need = need_of_device(d, i);
		struct kv_checkup c = {.limits = &b->device[i].limits, .need = &need};
		if (need.endpoints)
			run_checks(d, b->device[i].device.domain, &c, KV_CHECK_DEVICE);
	}
}

/* The descriptors that kv-server keeps for itself and for connections not admitted yet; its clients may take the rest
 * (kvserver/server/client_limit.c). It admits one client in any case. */
static uint64_t server_files_free(const struct role *r, uint64_t limit)
{
	uint64_t quarter = KV_MAX(limit / KV_HANDSHAKES_SHARE, (uint64_t)KV_HANDSHAKES_MIN);
	if (r->peers < 2 || limit == KV_UNKNOWN)
		return 0;
	return KV_FILES_LATER + KV_MIN(quarter, (uint64_t)KV_HANDSHAKES_MAX) + KV_FILES_RESERVE - KV_FILES_MARGIN;
}

static void check_role(struct doctor *d, const struct role *r)
{
	struct kv_host host = d->host;
	struct kv_checkup c = {
		.host = &host, .need = &r->budget.process, .pins_memory = r->budget.pins_memory, .cma_error = -1};
	struct kv_need need = r->budget.process;
	host.files_soft = doctor_files_soft(d, r);
	if (r == &d->server)
		need.files += server_files_free(r, host.files_soft);
	need.threads = 0; /* all processes share that limit: check_tasks checks it */
	/* At the start the engine sees this address space in use already: the providers' libraries, and the
	 * reservations of malloc and coroutines for each thread. */
	need.address_bytes += ADDRESS_LIBRARIES + (r->budget.process.threads + (r == &d->server)) * ADDRESS_THREAD;
	c.need = &need;
	if (r->present)
		run_checks(d, r->name, &c, KV_CHECK_PROCESS);
}

/* The threads of the run together. The main thread of kv-bench replaces this process, which counts as used now. */
static void check_tasks(struct doctor *d)
{
	struct kv_need need = {.threads = d->client.threads};
	struct kv_checkup c = {.host = &d->host, .need = &need, .cma_error = -1};
	struct kv_verdict v;
	/* The server's main thread and control thread, and the thread of kv-bench that reads the server's log. */
	if (d->server.present)
		need.threads += d->server.threads + 3;
	if (kv_check_one(&c, KV_LIMIT_THREADS, &v) != KV_SKIP)
		doctor_verdict(d, SECTION_RUN, "run", &v);
}

/* Make as many loops at once as a run has, since only the last one may exceed a limit. A loop that works, but not on
 * io_uring, reports why. */
static void rings_try(struct doctor *d, unsigned count)
{
	struct loop *loop[RINGS_MAX] = {NULL};
	struct kv_error err = {0};
	unsigned n = 0;
	count = KV_MIN(count, (unsigned)RINGS_MAX);
	while (n < count && d->uring_code == 0) {
		const struct loop_options options = {.name = "doctor"};
		d->uring_code = loop_create(&options, &loop[n], &err);
		if (d->uring_code)
			d->loops_fail = true;
		else if (loop_fallback(loop[n++]))
			err = *loop_fallback(loop[n - 1]), d->uring_code = err.code;
	}
	if (d->uring_code)
		snprintf(d->uring_error, sizeof(d->uring_error), "%.399s", err.text);
	while (n > 0)
		loop_destroy(&loop[--n]);
}

static void check_machine(struct doctor *d)
{
	if (!*d->root)
		rings_try(d, d->client.threads + (d->server.present ? d->server.threads + 1 : 0));
	struct kv_need need = d->client.budget.process;
	struct kv_checkup c = {.host = &d->host,
			       .need = &need,
			       .pins_memory = d->client.budget.pins_memory,
			       .shared_memory = d->client.budget.shared_memory,
			       .uring = *d->root ? NULL : d->uring_error,
			       .uring_code = d->uring_code,
			       .loops_fail = d->loops_fail,
			       .cma_error = d->cma_error};
	if (d->server.present) {
		kv_need_add(&need, &d->server.budget.process);
		/* kv-bench starts the server with --prefault start. */
		need.memory_soon_bytes +=
			d->server.budget.process.memory_bytes - d->server.budget.process.memory_soon_bytes;
	}
	need.mappings = (uint64_t)d->opt->num_workers * STACK_MAPPINGS + OTHER_MAPPINGS;
	run_checks(d, "machine", &c, KV_CHECK_HOST);
}

/* lo of a new network namespace is down, and no error of a run would say so. */
static void check_loopback(struct doctor *d)
{
	const struct netdev *lo = NULL;
	for (unsigned i = 0; i < d->num_netdevs; i++)
		if (strcmp(d->netdev[i].name, "lo") == 0)
			lo = &d->netdev[i];
	if (*d->root || !lo || !d->server.present || (lo->up && strncmp(lo->address, "127.", 4) == 0))
		return;
	doctor_found(d, SECTION_RUN, KV_FAIL, "loopback", "lo", "loopback", "%s; a run on one host uses 127.0.0.1",
		     lo->up ? "it has no IPv4 address" : "it is down");
	doctor_remedy(d, lo->up ? "`ip addr add 127.0.0.1/8 dev lo`" : "`ip link set lo up`");
}

void doctor_plan(struct doctor *d)
{
	roles_make(d);
	if (d->client.rc == 0 && (!d->server.present || d->server.rc == 0)) {
		const struct te_budget *b = &d->client.budget;
		doctor_found(d, SECTION_RUN, KV_OK, "provider", b->device[0].device.short_name, "provider", "%s",
			     b->why);
		check_devices(d);
		check_role(d, &d->client);
		check_role(d, &d->server);
		check_tasks(d);
	}
	check_loopback(d);
	check_machine(d);
}
