/* SPDX-License-Identifier: Apache-2.0 */
/* reach.c -- whether the servers of --server can be used from here: their control ports, then their fabric ports.
 *
 * Only an admitted client knows the fabric ports, so a child (probe/probe.h) opens a pool with one client, whose PING
 * reaches every shard over the fabric. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "kvclient/kvclient.h"
#include "kvdoctor/doctor.h"
#include "probe/probe.h"

enum { REACH_BUFFER_BYTES = 32 << 20, ARGS_MAX = 1024 };

#define CONTROL_NS 3000000000ull
#define CONNECT_NS 5000000000ull
#define CHILD_NS   30000000000ull

/* The child's report. */
struct reached {
	bool done;
	unsigned shards;
	uint64_t open_ns, ping_ns;
	char provider[64], error[512];
};

/* ---- the control port ---- */

/* Connect to one address within the time. Returns 0 or -errno. */
static int address_try(const struct sockaddr_storage *to, socklen_t len, uint64_t timeout_ns)
{
	struct pollfd p = {.fd = socket(to->ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0),
			   .events = POLLOUT};
	int rc = p.fd < 0 ? -errno : 0, error = 0;
	socklen_t size = sizeof(error);
	if (rc == 0 && connect(p.fd, (const struct sockaddr *)to, len) != 0 && errno != EINPROGRESS)
		rc = -errno;
	else if (rc == 0 && poll(&p, 1, (int)(timeout_ns / 1000000)) != 1)
		rc = -ETIMEDOUT;
	else if (rc == 0 && getsockopt(p.fd, SOL_SOCKET, SO_ERROR, &error, &size) == 0)
		rc = -error;
	if (p.fd >= 0)
		close(p.fd);
	return rc;
}

/* The first of the server's addresses that accepts a connection. *out: that one, or the last that does not. */
static int control_try(const struct kv_addresses *all, struct sockaddr_storage *out)
{
	int rc = -EHOSTUNREACH;
	for (unsigned i = 0; i < all->count && rc < 0; i++) {
		*out = all->addr[i];
		rc = address_try(out, all->len[i], CONTROL_NS);
	}
	return rc;
}

/* False: there is nothing to connect to. */
static bool control_judge(struct doctor *d, const char *server, const struct kv_server_entry *entry)
{
	uint64_t start_ns = kv_clock_now(&kv_clock_monotonic);
	struct sockaddr_storage at = {0};
	struct kv_addresses all = {0};
	struct kv_error err = {0};
	char address[80], took[32];
	int rc;
	if (kv_hostport_look_up(&entry->at, &all, &err) < 0)
		return false; /* plan.c has reported it */
	rc = control_try(&all, &at);
	kv_sockaddr_format(&at, address, sizeof(address));
	if (rc == 0) {
		doctor_found(d, SECTION_TRY, KV_OK, "control", server, "control port", "%s accepts connections, in %s",
			     address,
			     kv_duration_format(kv_clock_now(&kv_clock_monotonic) - start_ns, took, sizeof(took)));
		return true;
	}
	doctor_found(d, SECTION_TRY, KV_FAIL, "control", server, "control port", "%s accepts no connection: %s",
		     address, kv_strerror(rc));
	doctor_remedy(d, rc == -ECONNREFUSED
				 ? "start kv-server there, and compare its --listen-addr with this address"
				 : "see whether a firewall or security group drops it, and `ip route get` the "
				   "address");
	return false;
}

/* ---- the fabric ports ---- */

static void fabric_judge(struct doctor *d, const char *server, const struct reached *r)
{
	char opened[32], ping[32];
	if (!r->error[0]) {
		doctor_found(d, SECTION_TRY, KV_OK, "fabric", server, "fabric ports",
			     "admitted within %s over %s; %s answered over the fabric, in %s",
			     kv_duration_format(r->open_ns, opened, sizeof(opened)), r->provider,
			     r->shards == 1 ? "its shard" : "all its shards",
			     kv_duration_format(r->ping_ns, ping, sizeof(ping)));
		return;
	}
	doctor_found(d, SECTION_TRY, KV_FAIL, "fabric", server, "fabric ports", "%s", r->error);
	doctor_remedy(d,
		      kv_opt_security_given(&d->opt->security)
			      ? "compare the keys or certificates of both sides, and let TCP and the provider's own "
				"traffic pass in both directions (docs/guide/troubleshooting.md)"
			      : "give kv-doctor the key or certificates of the run, if it has some, and let TCP and "
				"the provider's own traffic pass in both directions (docs/guide/troubleshooting.md)");
}

/* Run the child for server `index`, with the command line of this program. */
static void child_run(const struct doctor *d, unsigned index, struct reached *out)
{
	struct probe p = {.name = "the connection",
			  .result = out,
			  .result_bytes = sizeof(*out),
			  .timeout_ns = CHILD_NS,
			  .keep_log = true};
	const char *argv[ARGS_MAX + 5];
	char report[16], number[16];
	int rc = probe_open(&p), n = 0;
	snprintf(report, sizeof(report), "%d", p.report_fd);
	snprintf(number, sizeof(number), "%u", index);
	argv[n++] = "kv-doctor";
	argv[n++] = REACH_CHILD;
	argv[n++] = report;
	argv[n++] = number;
	for (int i = 1; i < d->argc && i < ARGS_MAX; i++)
		argv[n++] = d->argv[i];
	argv[n] = NULL;
	probe_run(&p, rc, argv);
	if (!out->error[0] && (p.end != PROBE_EXITED || !out->done))
		snprintf(out->error, sizeof(out->error), "%s", p.text);
}

void doctor_reach(struct doctor *d)
{
	const struct doctor_options *o = d->opt;
	if (o->no_try || *d->root)
		return; /* doctor_try has reported that nothing is opened */
	for (unsigned i = 0; i < o->servers.count; i++) {
		struct reached reached = {0};
		struct kv_server_entry entry;
		struct kv_error err = {0};
		if (kv_server_entry_parse(o->servers.item[i], &entry, &err) < 0 ||
		    !control_judge(d, entry.text, &entry) || d->client.rc)
			continue;
		child_run(d, i, &reached);
		fabric_judge(d, entry.text, &reached);
	}
}

/* ---- in the child ---- */

static int pool_open(const struct doctor_options *o, unsigned index, struct kvc_pool **out, struct kv_error *err)
{
	struct kvc_options ko = {.size = sizeof(ko),
				 .flags = KVC_OPEN_WAIT,
				 .num_clients = 1,
				 .num_threads = 1,
				 .buffer_bytes = REACH_BUFFER_BYTES,
				 .servers = &o->servers.item[index],
				 .num_servers = 1,
				 .base_client_id = KV_CLUSTER_CLIENT,
				 .provider = o->provider,
				 .nic = o->nic,
				 .num_rails = o->rails,
				 .connect_timeout_ns = CONNECT_NS,
				 .timeout_ns = CONNECT_NS,
				 KV_OPT_SECURITY_OF(o->security),
				 .log_level = KV_LOG_ERROR};
	return kvc_pool_open(&ko, out, err);
}

static int server_try(const struct doctor_options *o, unsigned index, struct reached *out, struct kv_error *err)
{
	uint64_t start_ns = kv_clock_now(&kv_clock_monotonic), now_ns;
	struct kvc_server_info s = {.size = sizeof(s)};
	struct kvc_call call = {.size = sizeof(call), .timeout_ns = CONNECT_NS};
	struct kvc_info info = {.size = sizeof(info)};
	struct kvc_pool *pool = NULL;
	int rc = pool_open(o, index, &pool, err);
	now_ns = kv_clock_now(&kv_clock_monotonic);
	out->open_ns = now_ns - start_ns;
	if (rc == 0) {
		rc = kvc_ping(pool, &call);
		out->ping_ns = kv_clock_now(&kv_clock_monotonic) - now_ns;
		kvc_info(pool, &info);
		kvc_server_info(pool, 0, 0, &s);
		snprintf(out->provider, sizeof(out->provider), "%s", info.provider);
		out->shards = s.shards;
		if (rc < 0)
			kv_fail(err, rc, "not every shard answered over the fabric: %s%s%.300s", kv_strerror(rc),
				s.why[0] ? "; " : "", s.why);
	}
	kvc_pool_close(&pool);
	return rc;
}

int reach_child(int argc, char **argv)
{
	struct reached reached = {0};
	struct doctor_options options;
	struct kv_error err = {0};
	uint64_t report, index;
	if (argc < 2 || kv_u64_parse(argv[0], &report) < 0 || kv_u64_parse(argv[1], &index) < 0 || report > INT32_MAX ||
	    doctor_options_parse(argc - 1, argv + 1, &options, &err) != 0 || index >= options.servers.count) {
		fprintf(stderr, "kv-doctor: %s is for kv-doctor itself\n", REACH_CHILD);
		return 2;
	}
	kvc_program_setup();
	if (server_try(&options, (unsigned)index, &reached, &err) < 0)
		snprintf(reached.error, sizeof(reached.error), "%s", err.text);
	reached.done = true;
	probe_report((int)report, &reached, sizeof(reached));
	return reached.error[0] ? 1 : 0;
}
