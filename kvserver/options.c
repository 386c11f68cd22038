/* SPDX-License-Identifier: Apache-2.0 */
/* options.c -- the option table of kv-server: one row per flag gives the parse, --help and the defaults. */
#include "kvserver/options.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kvserver/events/publish.h"
#include "store/store.h"

#define AT(field) .offset = offsetof(struct flags, field)

static const char *const prefault_names[] = {
	[KVS_PREFAULT_BACKGROUND] = "background", [KVS_PREFAULT_START] = "start", [KVS_PREFAULT_OFF] = "off", NULL};

static const char *const arena_names[] = {"shared", "private", NULL};

static const char *const recover_names[] = {"empty", "verify", NULL};

static const char *const local_names[] = {"on", "off", NULL};

static const char *const log_formats[] = {[KV_LOG_TEXT] = "text", [KV_LOG_JSON] = "json", NULL};

static const struct kv_opt table[] = {
	KV_ROW_TEXT("listen-addr", AT(server.listen_addr), "HOST:PORT", KV_SERVER_DEFAULT,
		    "Address of control connections and source address of the fabric; port 0: any free port. 0.0.0.0 "
		    "is every IPv4 address, [::] every address; the fabric then uses --advertise, or the address of "
		    "the default route. The READY line names it.",
		    .letter = 'l', .group = "Server"),
	KV_ROW_U64("memory-mb", AT(memory_mb), "SIZE", "1024", 1, 1 << 24,
		   "Memory for values in MiB, all worker threads together; the index is extra.", .letter = 'm',
		   .unit = KV_OPT_MIB),
	KV_ROW_U64("landing-mb", AT(landing_mb), "SIZE", "128", 0, 1 << 20,
		   "Memory, beyond --memory-mb, into which clients write the bytes of their PUTs (tcp, and clients on "
		   "this host), all worker threads together; each client has its own part. 0: none, and PUTs are "
		   "slower. The default is smaller where memory is short.",
		   .unit = KV_OPT_MIB),
	KV_ROW_CHOICE(
		"arena", AT(arena), "KIND", "shared", arena_names,
		"Kind of the memory of --memory-mb. shared: clients on this host map it, read-only, and read values "
		"in place (--local). private: no other process can map it. One of"),
	KV_ROW_TEXT(
		"keep", AT(server.keep), "FILE", NULL,
		"The values outlive this process: at its end it writes their index to FILE, and the next server with "
		"this option has them again. The memory stays in --arena-file, with a service manager that keeps "
		"descriptors (systemd: FileDescriptorStoreMax), or with the server that takes this one's place "
		"(--handover). FILE.lock allows one server at a time."),
	KV_ROW_TEXT(
		"arena-file", AT(server.arena_file), "PATH", NULL,
		"With --keep: the memory of --memory-mb is files PATH.0, PATH.1, ..., one per worker thread, on tmpfs "
		"(as /dev/shm) or hugetlbfs."),
	KV_ROW_CHOICE(
		"recover", AT(recover), "HOW", "empty", recover_names,
		"With --keep: start after a server that did not end in order. empty: without values. verify: each "
		"value is noted beside the memory (256 bytes per value of --max-values, which is then one per 16 "
		"KiB of --memory-mb unless given), and comes back once its checksum is verified, while the server "
		"serves. One of"),
	KV_ROW_FLAG(
		"handover", AT(handover),
		"With --keep: take the place of the running server with the same --keep, of the same user and key. It "
		"serves until this one is ready, then ends; without one, this server starts as usual."),
	KV_ROW_CHOICE("prefault", AT(server.prefault), "WHEN", "background", prefault_names,
		      "When to fault in the memory of --memory-mb: in the background with a quarter of a core, at "
		      "start, or on demand (the first PUTs then wait)"),
	KV_OPT_NUMA_ROW(AT(numa)),
	KV_ROW_TEXT("node-id", AT(server.node_id), "NAME", NULL,
		    "Name of this server in the lists of clients (NAME=HOST:PORT), which place keys by it. A client "
		    "with another name for this server refuses it. Without --node-id every name is accepted, and "
		    "--members etcd:... registers the host name."),
	KV_ROW_U32("worker-threads", AT(server.shards), "N", NULL, 0, KV_SHARDS_MAX,
		   "Worker threads, each with its own endpoint and part of the memory; 0: one per core, at most 4."),
	KV_ROW_U32("max-clients", AT(server.max_clients), "N", "256", 1, KVS_CLIENTS_MAX,
		   "Clients connected at a time, including further sessions. Further clients are refused. 16 more "
		   "places are for kv-client and for servers that drain."),
	KV_ROW_U32("max-sessions", AT(server.max_sessions), "N", "0", 0, KVS_CLIENTS_MAX,
		   "Further sessions (logical clients) that one connection may open; 0: half of --max-clients."),
	KV_ROW_DURATION("ttl", AT(server.ttl_ns), "0", 0, 0,
			"Time to live of values stored without one; 0: they never expire."),
	EVICT_OPTION_ROW(AT(server.eviction), .help = "Which values to evict first when memory is short "
						      "(docs/internals/architecture.md has the differences)"),
	KV_ROW_SIZE("value-max", AT(server.value_max), "1G", 1, KV_VALUE_MAX, "Largest value accepted."),
	KV_ROW_U64("max-values", AT(server.values_max), "N", "0", 0, (uint64_t)1 << 36,
		   "Values stored at a time, all worker threads together; beyond that the server evicts. "
		   "Key and index of each take about 0.6 KiB beyond --memory-mb. 0: "
		   "one value per KiB of --memory-mb, or fewer where memory is short."),
	KV_ROW_TEXTS(
		"tier", AT(server.tier), "PATH[:SIZE],...", NULL,
		"NVMe tier: files of SIZE (ext4 or xfs), or partitions, for values that memory has no room for. They "
		"are read back when they are asked for, and survive a restart. All worker threads share them. "
		"Repeatable.",
		.group = "Tier"),
	KV_ROW_CHOICE("tier-admit", AT(server.tier_admit), "WHICH", "eviction", tier_admit_names,
		      "Which values are written to --tier: eviction: those about to leave memory; put: all, as soon as "
		      "possible; second: those about to leave it that did so before, for a device that wears out"),
	KV_ROW_SIZE(
		"tier-rate", AT(server.tier_rate), "0", 0, (uint64_t)1 << 50,
		"Bytes per second written to each of --tier; 0: no limit. What exceeds it leaves memory unwritten."),
	KV_ROW_SIZE("tier-day", AT(server.tier_day), "0", 0, (uint64_t)1 << 60,
		    "Bytes per day written to each of --tier, an hour's share at once; 0: no limit."),
	KV_ROW_SIZE("tier-segment", AT(server.tier_segment), "64M", TIER_SEGMENT_MIN, TIER_SEGMENT_MAX,
		    "Bytes of --tier that are reused together, a multiple of 1 MiB; a value must fit one."),
	KV_ROW_TEXT("members", AT(members.members), "SOURCE", NULL,
		    "Source of the members of the cluster: list:MEMBER,MEMBER; file:PATH, a MEMBER per line, reread "
		    "when it changes; dns:NAME:PORT; k8s:NAMESPACE/SERVICE[:PORT], its EndpointSlices; or "
		    "etcd:URL,URL/PREFIX, where this server registers itself. A MEMBER is NAME=HOST:PORT (several "
		    "addresses: NAME=HOST:PORT+HOST:PORT), or NAME=HOST:PORT;weight=N;zone=NAME;state=draining. /view "
		    "of --http-addr shows them.",
		    .group = "Cluster"),
	KV_ROW_TEXT("cluster", AT(server.cluster), "NAME", NULL,
		    "Name of the cluster. Clients that name another cluster are refused, "
		    "and views of clusters with different names are never compared. "
		    "Give all servers of a cluster the same name, and each cluster its own."),
	KV_ROW_TEXT("state-dir", AT(members.state_dir), "DIR", NULL,
		    "With --members: save each view in DIR, a folder of this server alone, and start with it if SOURCE "
		    "does not answer within 2 s. Without it, such a server is not ready until SOURCE answers. Views "
		    "older than 24 hours are not used."),
	KV_ROW_TEXT("advertise", AT(server.advertise), "HOST:PORT", NULL,
		    "Address under which others reach this server, and the address of its fabric when it listens on "
		    "0.0.0.0 or [::]; port 0: the port of --listen-addr. Up to 4, joined by '+': "
		    "10.0.0.5:7411+[fd00::5]:7411. Default: the listening address; --members etcd:... needs this "
		    "option when that is 0.0.0.0 or [::]."),
	KV_ROW_U32(
		"weight", AT(weight), "N", NULL, 1, KV_WEIGHT_MAX,
		"With --members etcd:...: this server's share of the keys, relative to the other servers'; default 1."),
	KV_ROW_TEXT("zone", AT(zone), "NAME", NULL,
		    "With --members etcd:...: the zone of this server, "
		    "for /view and clients. No client prefers near servers yet."),
	KV_ROW_U32("lease-sec", AT(lease_sec), "TIME", NULL, 2, 60,
		   "With --members etcd:...: a server that etcd has not heard "
		   "from for this long is no longer a member; default 10.",
		   .unit = KV_OPT_SECONDS),
	KV_ROW_U32("joining-sec", AT(joining_sec), "TIME", NULL, 1, 86400,
		   "With --members etcd:...: how long after its start this server counts as joining: it has its share "
		   "of the keys, and clients that miss here also ask other servers; default 600.",
		   .unit = KV_OPT_SECONDS),
	KV_ROW_TEXT("members-user", AT(members.user), "NAME", NULL, "With --members etcd:...: user name at etcd."),
	KV_ROW_TEXT("members-password-file", AT(members.password_file), "FILE", NULL,
		    "With --members-user: file whose first line is the password; read at each login."),
	KV_ROW_TEXT("members-token-file", AT(members.token_file), "FILE", NULL,
		    "With --members k8s:...: token of the service account, "
		    "if it is not in the usual place; read at each call."),
	KV_ROW_TEXT("members-ca", AT(members.ca_file), "FILE", NULL,
		    "CA certificate (PEM) of etcd or the API server. Default: the CAs that the system trusts, or for "
		    "k8s:... that of the service account."),
	KV_ROW_TEXT("members-cert", AT(members.cert_file), "FILE", NULL,
		    "With --members etcd:...: certificate (PEM) of this server for etcd; needs --members-key."),
	KV_ROW_TEXT("members-key", AT(members.key_file), "FILE", NULL, "Private key of --members-cert (PEM)."),
	KV_OPT_PROVIDER_ROW(AT(server.provider), .group = "Fabric"),
	KV_OPT_NIC_ROW(AT(server.nic)),
	KV_OPT_DOOR_ROW(AT(server.door)),
	KV_ROW_CHOICE(
		"local", AT(local), "WHICH", "on", local_names,
		"Clients on this host map this server's memory and read values in place, without the fabric. Each "
		"such client can then read all values. One of"),
	KV_ROW_TEXT("local-socket", AT(server.local_socket), "PATH", NULL,
		    "Unix socket over which clients on this host get that memory: a path, for clients in other "
		    "containers that mount its folder, or @NAME, an abstract name. Default: an abstract name, which "
		    "reaches clients in the same network namespace."),
	KV_ROW_U32("num-domains", AT(server.rails), "N", "0", 0, KV_RAILS_MAX,
		   "NICs (rails) per worker thread. 0: all of --nic; "
		   "without --nic, on EFA its share of the machine's NICs, else 1.",
		   .alias = "rails"),
	KV_ROW_SIZE("chunk", AT(chunk), "1M", 4096, 1 << 30, "Largest RMA operation."),
	KV_ROW_U32("credits", AT(server.credits), "N", "128", 1, 4096,
		   "Requests that a client may have in flight per link."),
	KV_ROW_U32("spin-us", AT(spin_us), "TIME", "50", 0, 1000000,
		   "How many microseconds a worker thread polls after its "
		   "last work before it sleeps, while polling pays; 0: none.",
		   .unit = KV_OPT_US),
	KV_ROW_U32("heartbeat-ms", AT(server.heartbeat_ms), "TIME", "500", 10, 60000,
		   "Time between heartbeats to a client with pending calls. Idle clients share a budget of 500 "
		   "heartbeats/s, but each gets one at least every 10 s.",
		   .unit = KV_OPT_MS),
	KV_ROW_TEXT("psk-file", AT(server.psk_file), "FILE", NULL,
		    "Pre-shared key: a line IDENTITY:HEX in a file that only its owner can read; reread at SIGHUP. "
		    "With several lines, 4096 at most, clients may use any of them, and this server uses the last one "
		    "towards other servers. NAME#1 and NAME#2 are two keys of the identity NAME: so keys can be "
		    "changed. --make-psk makes a file; `openssl rand -hex 32` makes a HEX.",
		    .group = "Security"),
	KV_ROW_TEXT("make-psk", AT(make_psk), "FILE", NULL,
		    "Write a new key for --psk-file to FILE, readable by its owner only, and exit. FILE must not "
		    "exist. No other option is allowed with it but --identity."),
	KV_ROW_TEXT("identity", AT(identity), "NAME", NULL,
		    "With --make-psk: the key is one of this identity (--tenants). Its line begins with NAME#, and "
		    "then has digits of its own."),
	KV_ROW_U32("psk-fd", AT(psk_fd), "FD", NULL, 1, INT32_MAX,
		   "Read the line of --psk-file from this inherited descriptor."),
	KV_ROW_TEXT("session-keys", AT(server.session_keys), "FILE", NULL,
		    "Keys of logical clients: lines IDENTITY:HEX in a file that only its owner can read. "
		    "Such clients may open further sessions on the connection of a client. "
		    "Five wrong keys within a minute end that connection."),
	KV_ROW_TEXT(
		"tenants", AT(server.tenants), "FILE", NULL,
		"Who may do what: a JSON file of tenants, each with identities (of keys or certificates), namespaces "
		"with rights, and limits (docs/guide/tenants.md). Others are refused. Reread at SIGHUP."),
	KV_ROW_TEXT("cert", AT(server.cert_file), "FILE", NULL,
		    "Certificate of this server (PEM); needs --key and --ca."),
	KV_ROW_TEXT("key", AT(server.key_file), "FILE", NULL, "Private key of the certificate (PEM)."),
	KV_ROW_TEXT("ca", AT(server.ca_file), "FILE", NULL,
		    "CA certificate that signed the certificates of clients (PEM)."),
	KV_ROW_TEXT("crl", AT(server.crl_file), "FILE", NULL,
		    "Revocation lists of that CA and of the CAs below it (PEM); reread when the file changes."),
	KV_ROW_TEXT("server-name", AT(server_name), "NAME", NULL,
		    "With --members and certificates: the name expected in the certificates of other servers, to which "
		    "a drain pushes values. Default: the host of each address."),
	KV_ROW_FLAG("insecure", AT(server.insecure),
		    "Accept clients of other machines without key or certificate. Without effect together with "
		    "--psk-file or --cert. HTTP has its own option (--http-insecure)."),
	KV_ROW_FLAG("allow-drain", AT(allow_drain),
		    "Let every client end this server: kv-client drain then works as SIGTERM, with bounds that may "
		    "differ from --drain-sec and --drain-mb."),
	KV_ROW_FLAG("allow-pull", AT(server.allow_pull),
		    "Let clients read values directly from this server's memory (kv-bench, kv-client: --mode pull). "
		    "Every connected client can then read all values."),
	KV_ROW_FLAG("pull-where-safe", AT(server.pull_where_safe),
		    "Like --allow-pull, but ignored where reading could crash a client (tcp with libfabric before "
		    "1.22). With --allow-pull the server refuses to start there."),
	KV_ROW_U64("lease-ms", AT(lease_ms), "TIME", "1000", 10, 60000,
		   "With --allow-pull: how long a value stays in place for a client that reads it.", .unit = KV_OPT_MS),
	KV_OPT_SLOW_ROW(AT(slow_ms),
			.help = "Log requests that take this many milliseconds or more in this server, at "
				"most 10 per second and thread; 0: none.",
			.group = "Operation"),
	KV_ROW_TEXT("log-level", AT(log_level), "LEVEL", "info",
		    "Level of the log: off, error, warn, info, debug or trace."),
	KV_ROW_CHOICE("log-format", AT(log_format), "FORMAT", "text", log_formats,
		      "Format of the log: lines of text, or one JSON object per line with ts, level, component and "
		      "msg. If standard error is systemd's journal, lines begin with their priority. One of"),
	KV_ROW_TEXT(
		"events", AT(events), "WHERE", "off",
		"Report which values this server stores and removes. on: to clients that follow it (kv-client "
		"events). zmq:tcp://HOST:PORT: to these, and those of one namespace over ZeroMQ, in the format of vLLM "
		"and SGLang; subscribers are not authenticated. Any of these may follow: ,replay=tcp://HOST:PORT "
		",topic=TEXT ,namespace=NAME ,format=map|array ,connect. off: to nobody."),
	KV_ROW_TEXT("http-addr", AT(http_addr), "HOST:PORT", NULL,
		    "Serve HTTP here: /metrics (Prometheus), /healthz, /readyz, /stat and /view. Beyond loopback with "
		    "TLS (--cert and --key), or without it (--http-insecure). Requests are not authenticated."),
	KV_ROW_FLAG("http-insecure", AT(http_insecure),
		    "Serve HTTP beyond loopback without TLS. Clients are not affected."),
	KV_ROW_TEXT("config", AT(config), "FILE", NULL,
		    "Read options from FILE: lines NAME = VALUE with the names of this list; # begins a comment. The "
		    "command line has precedence. SIGHUP applies log-level, slow-ms, ttl, drain-sec, drain-mb and "
		    "weight again; other changes need a restart, and the log names them."),
	KV_ROW_U32("drain-sec", AT(drain_sec), "TIME", "10", 0, 86400,
		   "Longest time from SIGTERM (or a client's drain, --allow-drain) to the end: the server says goodbye "
		   "to its clients and finishes their requests. With --members it first pushes recently used values to "
		   "the other servers, for at most three quarters of this time.",
		   .unit = KV_OPT_SECONDS),
	KV_ROW_U64("drain-mb", AT(drain_mb), "SIZE", "1024", 0, 1 << 20,
		   "With --members: MiB per second of values pushed to the other servers during a drain. 0: none.",
		   .unit = KV_OPT_MIB),
	KV_ROW_U32("ready-fd", AT(ready_fd), "FD", NULL, 1, INT32_MAX,
		   "Write \"READY HOST:PORT\" to this descriptor once clients can connect."),
	KV_ROW_FLAG("die-with-parent", AT(die_with_parent), "Stop when the process that started this one ends."),
	{.name = NULL},
};

/* ---- options that have an effect only together with others ---- */

static bool same(const struct kv_opt *row, const struct flags *a, const struct flags *b)
{
	char one[1024], other[1024];
	return strcmp(kv_opt_format(row, a, one, sizeof(one)), kv_opt_format(row, b, other, sizeof(other))) == 0;
}

static bool keeps(const struct flags *f)
{
	return f->server.keep != NULL;
}

static bool has_tier(const struct flags *f)
{
	return f->server.tier.count > 0;
}

static bool has_http(const struct flags *f)
{
	return f->http_addr != NULL;
}

static bool is_member(const struct flags *f)
{
	return f->members.members != NULL;
}

static bool lets_pull(const struct flags *f)
{
	return f->server.allow_pull || f->server.pull_where_safe;
}

static bool shares_memory(const struct flags *f)
{
	return f->local == 0 && f->arena == 0;
}

static const struct companion {
	const char *option;
	bool (*there)(const struct flags *f); /* what it needs */
	const char *with;
} companions[] = {
	{"recover", keeps, "--keep: other memory does not survive a crash"},
	{"handover", keeps, "--keep: the running server is found by it"},
	{"arena-file", keeps, "--keep: without an index its values would be lost"},
	{"local-socket", shares_memory, "--arena shared, without --local off: else no client maps this memory"},
	{"tier-admit", has_tier, "--tier"},
	{"tier-rate", has_tier, "--tier"},
	{"tier-day", has_tier, "--tier"},
	{"tier-segment", has_tier, "--tier"},
	{"lease-ms", lets_pull,
	 "--allow-pull or --pull-where-safe: clients on this host keep values for as long as they run"},
	{"http-insecure", has_http, "--http-addr"},
	{"drain-mb", is_member, "--members: without other members nothing is pushed"},
};

/* A value that is the default has no effect of its own, and may stay. */
static int companions_check(const struct flags *f, struct kv_error *err)
{
	struct flags defaults = {.config = NULL};
	kv_opt_defaults(table, &defaults);
	for (const struct companion *c = companions; c < companions + KV_COUNT(companions); c++) {
		const struct kv_opt *row = table;
		while (strcmp(row->name, c->option) != 0)
			row++;
		if (!c->there(f) && !same(row, f, &defaults))
			return kv_fail(err, -KV_EINVAL, "--%s goes with %s", c->option, c->with);
	}
	return 0;
}

/* Options that exclude each other, or that no server can run with, are found before anything is opened. */
static int security_check(const struct flags *f, struct kv_error *err)
{
	const char *psk_fd = f->psk_fd != FLAGS_FD_NONE ? "--psk-fd" : NULL;
	const struct kv_opt_security files = {.psk_file = f->server.psk_file ? f->server.psk_file : psk_fd,
					      .cert = f->server.cert_file,
					      .key = f->server.key_file,
					      .ca = f->server.ca_file,
					      .crl = f->server.crl_file};
	if (f->server_name && (!f->members.members || !f->server.cert_file || !f->server_name[0]))
		return kv_fail(err, -KV_EINVAL,
			       "--server-name goes with --members and --cert: "
			       "it is a name in the certificates of the other members");
	if (f->server.psk_file && f->psk_fd != FLAGS_FD_NONE)
		return kv_fail(err, -KV_EINVAL, "--psk-file and --psk-fd both give a key: use one of them");
	return kv_opt_security_check(&files, err);
}

static int descriptor_check(const char *option, uint32_t fd, struct kv_error *err)
{
	if (fd == FLAGS_FD_NONE || fcntl((int)fd, F_GETFD) >= 0)
		return 0;
	return kv_fail(err, -KV_EINVAL, "%s %u: this process has inherited no such descriptor", option, fd);
}

static int http_check(const char *addr, struct kv_error *err)
{
	struct kv_hostport hp;
	return kv_hostport_parse(addr, &hp, err) ? kv_fail_more(err, "--http-addr") : 0;
}

static void membership_fill(const struct flags *f, struct membership_options *out)
{
	*out = f->members;
	out->self = (struct kv_member){.weight = f->weight ? f->weight : KV_WEIGHT_DEFAULT, .state = KV_MEMBER_UP};
	out->named = f->server.node_id != NULL;
	out->cluster = f->server.cluster;
	out->lease_ns = f->lease_sec * 1000000000ull;
	out->joining_ns = f->joining_sec * 1000000000ull;
}

/* Whether others can be given this address. */
static bool is_wildcard(const char *addr)
{
	struct kv_hostport hp;
	return kv_hostport_parse(addr, &hp, NULL) == 0 &&
	       (strcmp(hp.host, "0.0.0.0") == 0 || strcmp(hp.host, "::") == 0);
}

/* Read --advertise. port: stands for port 0. */
static int advertise_parse(const char *text, uint16_t port, char out[KV_WHERE_MAX], struct kv_error *err)
{
	struct kv_hostport at;
	char one[KV_WHERE_MAX], all[KV_WHERE_MAX] = "";
	unsigned parts = 1;
	for (const char *plus = text; (plus = strchr(plus, '+')) != NULL; plus++)
		parts++;
	for (unsigned i = 0; kv_where_at(text, i, &at); i++, parts--) {
		if (is_wildcard(kv_hostport_format(&at, one, sizeof(one))))
			return kv_fail(err, -KV_EINVAL,
				       "--advertise %s: nobody can connect to %s; "
				       "give addresses of this machine, with '+' between them",
				       text, at.host);
		at.port = at.port ? at.port : port;
		if (!kv_where_add(all, kv_hostport_format(&at, one, sizeof(one))))
			return kv_fail(err, -KV_EINVAL, "--advertise %.200s: at most %d addresses, of %d characters",
				       text, KV_WHERE_ADDRESSES, KV_WHERE_MAX - 1);
	}
	if (kv_where_parse(parts == 0 ? all : text, out, err))
		return kv_fail_more(err, "--advertise");
	return 0;
}

/* The etcd source alone registers what these say; elsewhere they would have no effect. */
static int registering_check(const struct flags *f, struct kv_error *err)
{
	struct kv_member m;
	char text[KV_HOST_MAX + 32];
	if (strncmp(f->members.members, "etcd:", 5) != 0)
		return f->weight || f->zone ? kv_fail(err, -KV_EINVAL,
						      "--weight and --zone go with --members etcd:...: "
						      "other sources define them")
					    : 0;
	if (!f->server.advertise && is_wildcard(f->server.listen_addr))
		return kv_fail(
			err, -KV_EINVAL,
			"--listen-addr %s is every address of this machine, and --members etcd:... registers one: "
			"give --advertise HOST:PORT, by which others reach this server",
			f->server.listen_addr);
	snprintf(text, sizeof(text), "h:1;zone=%.200s", f->zone);
	return f->zone && member_parse(text, &m, NULL) ? kv_fail(err, -KV_EINVAL,
								 "--zone %s: it must have 1 to %d characters of ASCII, "
								 "without spaces, '=', ',' and ';'",
								 f->zone, KV_NAME_MAX - 1)
						       : 0;
}

static int members_check(const struct flags *f, struct kv_error *err)
{
	struct membership_options options;
	char ignored[KV_WHERE_MAX];
	int rc = f->server.advertise ? advertise_parse(f->server.advertise, KV_PORT_DEFAULT, ignored, err) : 0;
	membership_fill(f, &options);
	if (rc)
		return rc;
	if (!f->members.members)
		return f->members.state_dir || f->weight || f->zone || f->lease_sec || f->joining_sec ||
				       f->members.user || f->members.password_file || f->members.token_file ||
				       f->members.ca_file || f->members.cert_file || f->members.key_file
			       ? kv_fail(err, -KV_EINVAL,
					 "--state-dir, --weight, --zone, --lease-sec, "
					 "--joining-sec and --members-... go with --members")
			       : 0;
	rc = membership_check(&options, err);
	if (rc == 0 && f->members.state_dir && f->members.state_dir[0] != '/')
		rc = kv_fail(err, -KV_EINVAL,
			     "--state-dir %.200s: give the whole path, from / on: a service has a folder of its own",
			     f->members.state_dir);
	return rc ? rc : registering_check(f, err);
}

int flags_membership(const struct flags *f, const char *address, uint64_t incarnation, const struct kv_log *log,
		     struct membership_options *out, struct kv_error *err)
{
	struct kv_hostport here = {0};
	int rc = kv_hostport_parse(address, &here, err);
	membership_fill(f, out);
	out->log = log;
	out->self.incarnation = incarnation;
	kv_hostport_format(&here, out->listen, sizeof(out->listen));
	if (rc == 0 && f->server.advertise)
		rc = advertise_parse(f->server.advertise, here.port, out->self.address, err);
	else if (rc == 0 && !is_wildcard(address))
		memcpy(out->self.address, out->listen, sizeof(out->self.address));
	if (rc)
		return rc;
	if (f->zone)
		snprintf(out->self.zone, sizeof(out->self.zone), "%s", f->zone);
	if (f->server.node_id)
		snprintf(out->self.node_id, sizeof(out->self.node_id), "%.*s", KV_NAME_MAX - 1, f->server.node_id);
	else if (gethostname(out->self.node_id, sizeof(out->self.node_id) - 1) != 0)
		out->self.node_id[0] = '\0';
	rc = kv_node_id_check(out->self.node_id, err);
	return rc ? kv_fail_more(err, "the host's name: give --node-id") : 0;
}

static int keep_check(const struct flags *f, struct kv_error *err)
{
	if (!f->server.keep)
		return 0;
	if (!f->server.keep[0] || (f->server.arena_file && !f->server.arena_file[0]))
		return kv_fail(err, -KV_EINVAL, "--keep and --arena-file need the name of a file");
	return f->arena == 1
		       ? kv_fail(err, -KV_EINVAL,
				 "--keep needs --arena shared: another process maps the memory later (--local off "
				 "keeps clients from it)")
		       : 0;
}

static int events_check(const char *where, struct kv_error *err)
{
	struct publish_at ignored;
	if (strncmp(where, "zmq:", 4) == 0)
		return publish_at_parse(where + 4, &ignored, err);
	if (strcmp(where, "on") == 0 || strcmp(where, "off") == 0)
		return 0;
	return kv_fail(err, -KV_EINVAL, "--events %.200s: give on, off or zmq:tcp://HOST:PORT", where);
}

/* start: also what is true at the start alone. Inherited descriptors are closed once they were used. */
static int flags_check(const struct flags *f, bool start, struct kv_error *err)
{
	enum kv_log_level level;
	struct kv_hostport hp;
	int rc = kv_hostport_parse(f->server.listen_addr, &hp, err);
	if (rc == 0 && f->http_addr)
		rc = http_check(f->http_addr, err);
	if (rc == 0 && f->server.node_id && !f->server.node_id[0])
		rc = kv_fail(err, -KV_EINVAL, "--node-id needs a name");
	if (rc == 0 && f->server.cluster && kv_node_id_check(f->server.cluster, NULL))
		rc = kv_fail(err, -KV_EINVAL,
			     "--cluster %.100s: a name has 1 to %d characters of ASCII, without spaces, '=' and ','",
			     f->server.cluster, KV_NAME_MAX - 1);
	if (rc == 0)
		rc = keep_check(f, err);
	if (rc == 0)
		rc = companions_check(f, err);
	if (rc == 0)
		rc = events_check(f->events, err);
	if (rc == 0 && f->memory_mb < f->server.shards)
		rc = kv_fail(err, -KV_EINVAL,
			     "--memory-mb %llu for --worker-threads %u: each thread needs 1 MiB at least",
			     (unsigned long long)f->memory_mb, f->server.shards);
	if (rc == 0)
		rc = security_check(f, err);
	if (rc == 0)
		rc = members_check(f, err);
	if (rc == 0 && start)
		rc = descriptor_check("--ready-fd", f->ready_fd, err);
	if (rc == 0 && start)
		rc = descriptor_check("--psk-fd", f->psk_fd, err);
	if (rc == 0 && kv_log_level_parse(f->log_level, &level))
		rc = kv_fail(err, -KV_EINVAL, "--log-level %s: give off, error, warn, info, debug or trace",
			     f->log_level);
	return rc;
}

static int words_of(int argc, char **argv, const char *value)
{
	for (int i = 1; i < argc; i++)
		if (argv[i] == value)
			return 2;
	return value != NULL;
}

/* --make-psk only makes a key. Other options would be ignored, so they are refused. */
static int make_psk_check(int argc, char **argv, const struct flags *f, struct kv_error *err)
{
	if (!f->make_psk)
		return f->identity ? kv_fail(err, -KV_EINVAL, "--identity NAME is for --make-psk FILE alone") : 0;
	if (!f->make_psk[0])
		return kv_fail(err, -KV_EINVAL, "--make-psk needs the name of a file");
	if (argc != 1 + words_of(argc, argv, f->make_psk) + words_of(argc, argv, f->identity))
		return kv_fail(err, -KV_EINVAL,
			       "--make-psk FILE only makes a key, without other options but --identity: start the "
			       "server with another command, and --psk-file %.200s",
			       f->make_psk);
	if (!f->identity)
		return 0;
	for (const char *c = f->identity; *c; c++)
		if (*c <= ' ' || *c > '~' || *c == '#')
			return kv_fail(err, -KV_EINVAL,
				       "--identity: it has printable ASCII characters without spaces and '#'");
	if (!f->identity[0] || strlen(f->identity) >= KV_KEY_PREFIX_MAX)
		return kv_fail(err, -KV_EINVAL, "--identity: it has 1 to %d characters", KV_KEY_PREFIX_MAX - 1);
	return 0;
}

static const struct kv_opt_program program = {
	.name = "kv-server",
	.about = "kv-server -- holds KV-cache blocks in memory and moves them over libfabric.",
	.epilogue =
		"SIGTERM and SIGINT drain the server: it says goodbye to its clients, finishes what is in "
		"flight (--drain-sec) and exits with 0; a second signal ends it at once, and so does one "
		"before it is READY. SIGHUP reads the files of --psk-file, --session-keys, --tenants, --cert, "
		"--key, --ca and --crl again, for connections from then on (if one cannot be used, all stay as they "
		"were), reads --config again, and sets the log's level to --log-level. SIGUSR1 and SIGUSR2 "
		"raise and lower that level by a step.\n\nExit status: 0 stopped, 2 usage, 3 it could not start.",
};

/* What a file may not say. */
static const struct kv_opt_refused not_in_file[] = {
	{"config", "one file names no other"},
	{"make-psk", "it makes a key without a server: give it on the command line"},
	{"identity", "it is for --make-psk: give both on the command line"},
	{"psk", "no key may be in this file: put it into one that only its owner may read, and give that as psk-file"},
	{NULL, NULL},
};

/* File first, command line over it. *out_text: what strings of the file point into. */
static int file_parse(int argc, char **argv, struct flags *out, char **out_text, struct kv_error *err)
{
	char *path = strdup(out->config); /* *out is set anew */
	int rc = path ? 0 : kv_fail(err, -KV_ENOMEM, "no memory for --config");
	if (rc == 0)
		kv_opt_defaults(table, out);
	if (rc == 0)
		rc = kv_opt_file_read(table, not_in_file, path, out, out_text, err);
	if (rc)
		kv_fail_more(err, "--config");
	else
		rc = kv_opt_parse_over(&program, table, argc, argv, out, NULL, err);
	free(path);
	return rc < 0 && rc != -KV_ENOMEM ? -KV_EINVAL : rc;
}

static int all_parse(int argc, char **argv, bool start, struct flags *out, char **out_text, struct kv_error *err)
{
	int rc = kv_opt_parse(&program, table, argc, argv, out, NULL, err);
	*out_text = NULL;
	if (rc == 0)
		rc = make_psk_check(argc, argv, out, err);
	if (rc == 0 && out->config)
		rc = file_parse(argc, argv, out, out_text, err);
	return rc ? rc : flags_check(out, start, err);
}

int flags_parse(int argc, char **argv, struct flags *out, struct kv_error *err)
{
	static char *text;
	free(text); /* of a former call */
	text = NULL;
	return all_parse(argc, argv, true, out, &text, err);
}

/* ---- again ---- */

/* Whether a running server can take this option; then it is taken. */
static bool row_take(const struct kv_opt *row, const struct flags *fresh, struct flags *running)
{
	enum kv_log_level level = KV_LOG_INFO;
	if (row->offset == offsetof(struct flags, log_level)) {
		kv_log_level_parse(fresh->log_level, &level);
		running->log_level = kv_log_level_name(level); /* fresh points into a text that goes away */
	} else if (row->offset == offsetof(struct flags, slow_ms)) {
		running->slow_ms = fresh->slow_ms;
	} else if (row->offset == offsetof(struct flags, server.ttl_ns)) {
		running->server.ttl_ns = fresh->server.ttl_ns;
	} else if (row->offset == offsetof(struct flags, drain_sec)) {
		running->drain_sec = fresh->drain_sec;
	} else if (row->offset == offsetof(struct flags, drain_mb)) {
		running->drain_mb = fresh->drain_mb;
	} else if (row->offset == offsetof(struct flags, weight)) {
		running->weight = fresh->weight;
	} else {
		return false;
	}
	return true;
}

static void name_add(char *list, size_t cap, const struct kv_opt *row, const struct flags *value)
{
	char text[128];
	size_t at = strlen(list);
	if (value)
		snprintf(list + at, cap - at, "%s%s = %s", at ? ", " : "", row->name,
			 kv_opt_format(row, value, text, sizeof(text)));
	else
		snprintf(list + at, cap - at, "%s%s", at ? ", " : "", row->name);
}

int flags_reload(int argc, char **argv, struct flags *running, char *out_taken, char *out_left, size_t cap,
		 struct kv_error *err)
{
	struct flags fresh;
	char *text;
	int rc = all_parse(argc, argv, false, &fresh, &text, err);
	out_taken[0] = out_left[0] = '\0';
	for (const struct kv_opt *row = table; rc == 0 && row->name; row++) {
		if (same(row, running, &fresh))
			continue;
		if (row_take(row, &fresh, running))
			name_add(out_taken, cap, row, running);
		else
			name_add(out_left, cap, row, NULL);
	}
	free(text);
	return rc;
}

void flags_options(const struct flags *f, const char *psk, const struct kv_log *log, struct kvs_options *out)
{
	*out = f->server;
	out->memory_bytes = f->memory_mb << 20;
	out->landing_bytes = f->landing_mb << 20;
	out->landing_off = f->landing_mb == 0;
	out->slow_ns = f->slow_ms * 1000000ull;
	out->spin_ns = f->spin_us * 1000ull;
	out->lease_ns = f->lease_ms * 1000000ull;
	out->chunk_bytes = (uint32_t)f->chunk;
	out->numa_off = f->numa == 1;
	out->arena_private = f->arena == 1;
	out->recover = f->recover == 1;
	out->local_off = f->local == 1;
	out->psk = psk;
	out->events = strcmp(f->events, "off") != 0;
	out->publish = f->http_addr != NULL;
	out->members = f->members.members != NULL;
	out->log = log;
}

int flags_psk_read(int fd, char *buf, size_t cap, struct kv_error *err)
{
	size_t len = 0;
	ssize_t n = 1;
	int rc = 0;
	while (n != 0 && len < cap - 1 && !memchr(buf, '\n', len)) {
		n = read(fd, buf + len, cap - 1 - len);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0) {
			rc = kv_fail(err, -errno, "--psk-fd %d: %s", fd, kv_strerror(errno));
			break;
		}
		len += (size_t)n;
	}
	close(fd);
	if (rc)
		return rc;
	buf[len] = 0;
	buf[strcspn(buf, "\r\n")] = 0;
	return buf[0] ? 0 : kv_fail(err, -KV_EINVAL, "--psk-fd %d: no line \"identity:hex\" came from it", fd);
}
