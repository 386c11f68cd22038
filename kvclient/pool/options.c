/* SPDX-License-Identifier: Apache-2.0 */
/* options.c -- check a pool's options and complete them with defaults. Every refusal is one sentence with the way out.
 */
#include "kvclient/pool/private.h"

#include <stdlib.h>
#include <strings.h>

#include "host/host.h"
#include "kvclient/core/pool.h"
#include "kvclient/core/sized.h"
#include "local/local.h"

#define GRACE_MAX_NS         60000000000ull
#define PEER_TIMEOUT_DEFAULT 2000000000ull
#define PEER_TIMEOUT_MIN     20000000ull
#define PEER_TIMEOUT_MAX     3600000000000ull
#define SETTLE_DEFAULT_NS    600000000000ull
#define SETTLE_MAX_NS        86400000000000ull
#define REPAIR_DEFAULT       ((uint64_t)256 << 20)

enum { THREADS_MOST = 4, SERVERS_ROOM = 64, SOCKET_NAME_MAX = LOCAL_NAME_MAX };

#define BUFFER_MIN ((uint64_t)1 << 20)
#define BUFFER_MAX ((uint64_t)1 << 36)

static void fill_zero_u(unsigned *v, unsigned def)
{
	if (*v == 0)
		*v = def;
}

static void fill_zero_64(uint64_t *v, uint64_t def)
{
	if (*v == 0)
		*v = def;
}

static int check_counts(const struct kvc_options *o, struct kv_error *err)
{
	if (o->num_clients > KC_CLIENTS_MAX)
		return kv_fail(err, -KV_EINVAL,
			       "num_clients is %u; at most %d: clients are shared by workers, 4 serve hundreds",
			       o->num_clients, (int)KC_CLIENTS_MAX);
	if (o->num_threads > KC_THREADS_MAX)
		return kv_fail(err, -KV_EINVAL, "num_threads is %u; at most %d", o->num_threads, (int)KC_THREADS_MAX);
	if (o->num_rails > KV_RAILS_MAX)
		return kv_fail(err, -KV_EINVAL, "num_rails is %u; at most %d", o->num_rails, (int)KV_RAILS_MAX);
	if (o->buffer_bytes < BUFFER_MIN || o->buffer_bytes > BUFFER_MAX)
		return kv_fail(err, -KV_EINVAL,
			       "the receive buffer of a client is to have %llu bytes; it must have 1 MiB to 64 GiB",
			       (unsigned long long)o->buffer_bytes);
	if (o->peer_timeout_ns < PEER_TIMEOUT_MIN || o->peer_timeout_ns > PEER_TIMEOUT_MAX)
		return kv_fail(err, -KV_EINVAL,
			       "peer_timeout_ns is %llu; a server may be silent "
			       "for 20 ms to 1 hour before it is taken for dead",
			       (unsigned long long)o->peer_timeout_ns);
	if (o->settle_ns > SETTLE_MAX_NS)
		return kv_fail(err, -KV_EINVAL,
			       "settle_ns is %llu s; at most a day is possible, "
			       "because each miss costs more during that time",
			       (unsigned long long)(o->settle_ns / 1000000000));
	if (o->numa > KVC_NUMA_OFF)
		return kv_fail(err, -KV_EINVAL, "numa is %u; it is KVC_NUMA_AUTO or KVC_NUMA_OFF", (unsigned)o->numa);
	if (o->mode > KVC_MODE_PULL)
		return kv_fail(err, -KV_EINVAL, "mode is %u; it is KVC_MODE_AUTO, KVC_MODE_PUSH or KVC_MODE_PULL",
			       (unsigned)o->mode);
	if (o->door > KVC_DOOR_OFF)
		return kv_fail(err, -KV_EINVAL, "door is %u; it is KVC_DOOR_AUTO, KVC_DOOR_REQUIRE or KVC_DOOR_OFF",
			       (unsigned)o->door);
	if (o->local > KVC_LOCAL_OFF)
		return kv_fail(err, -KV_EINVAL, "local is %u; it is KVC_LOCAL_AUTO or KVC_LOCAL_OFF",
			       (unsigned)o->local);
	if (o->local_socket && strlen(o->local_socket) >= SOCKET_NAME_MAX)
		return kv_fail(err, -KV_EINVAL, "local_socket has %zu bytes; the path of a Unix socket has at most %d",
			       strlen(o->local_socket), SOCKET_NAME_MAX - 1);
	if (o->flags & KVC_BACKGROUND)
		return kv_fail(err, -KV_EINVAL,
			       "KVC_BACKGROUND is a flag of a call, not of a pool: "
			       "set it in struct kvc_call of the calls that can wait");
	if (o->flags & KVC_EXACT)
		return kv_fail(err, -KV_EINVAL,
			       "KVC_EXACT is a flag of a call, not of a pool: "
			       "set it in struct kvc_call of the GETs whose length is known");
	if (o->flags & KVC_SEAL_NAMES && !o->seal_key_file)
		return kv_fail(err, -KV_EINVAL,
			       "KVC_SEAL_NAMES needs keys: give seal_key_file, a file with a line 'names:HEX'");
	if (o->seal_key_file && o->psk_file && strcmp(o->seal_key_file, o->psk_file) == 0)
		return kv_fail(err, -KV_EINVAL,
			       "seal_key_file is psk_file, whose key the servers have as well: make another file with "
			       "`kv-client make-seal-key FILE`");
	if (o->flags & ~(unsigned)(KVC_NO_VERIFY | KVC_DOWN_IS_MISS | KVC_NO_PREFLIGHT | KVC_OPEN_WAIT |
				   KVC_NO_THREADS | KVC_TWO_COPIES | KVC_HOT_COPIES | KVC_SEAL_NAMES))
		return kv_fail(err, -KV_EINVAL,
			       "flags are 0x%x; only KVC_NO_VERIFY, KVC_DOWN_IS_MISS, KVC_NO_PREFLIGHT, KVC_OPEN_WAIT, "
			       "KVC_NO_THREADS, KVC_TWO_COPIES, KVC_HOT_COPIES and KVC_SEAL_NAMES are known",
			       o->flags);
	if (o->flags & KVC_NO_THREADS && o->num_threads > 1)
		return kv_fail(err, -KV_EINVAL,
			       "num_threads is %u, and KVC_NO_THREADS asks for none; a pool without threads has one "
			       "loop: leave num_threads 0, or open a pool for each of your threads",
			       o->num_threads);
	return 0;
}

/* A server listed twice would get two shares of the keys. */
static int check_twins(const char *text, const struct kv_server_entry *a, const struct kv_server_entry *b,
		       struct kv_error *err)
{
	if (strcmp(a->id, b->id) == 0)
		return kv_fail(err, -KV_EINVAL, "server %s is in the list twice; %s", text,
			       a->named ? "give each its own name" : "name it once");
	if (kv_where_shares(a->where, b->where))
		return kv_fail(err, -KV_EINVAL, "servers %s and %s of the list have the same address; name it once",
			       a->text, b->text);
	return 0;
}

static int check_list(const struct kvc_options *o, struct kv_server_entry *entry, struct kv_error *err)
{
	int rc = 0;
	for (unsigned i = 0; i < o->num_servers && rc == 0; i++) {
		if (!o->servers[i])
			return kv_fail(err, -KV_EINVAL, "server %u of the list is NULL", i);
		rc = kv_server_entry_parse(o->servers[i], &entry[i], err);
		for (unsigned k = 0; k < i && rc == 0; k++)
			rc = check_twins(o->servers[i], &entry[k], &entry[i], err);
	}
	return rc;
}

static int check_servers(const struct kvc_options *o, struct kv_error *err)
{
	struct kv_server_entry *entry;
	int rc;
	if (o->num_servers == 0 || !o->servers)
		return kv_fail(err, -KV_EINVAL, "no server is given; name at least one as HOST:PORT or NAME=HOST:PORT");
	if (o->num_servers > KC_SERVERS_MAX)
		return kv_fail(err, -KV_EINVAL, "%u servers are given; at most %d", o->num_servers,
			       (int)KC_SERVERS_MAX);
	if (o->servers_max < o->num_servers || o->servers_max > KC_SERVERS_MAX)
		return kv_fail(err, -KV_EINVAL, "servers_max is %u; it may be %u, the servers of the list, to %d",
			       o->servers_max, o->num_servers, (int)KC_SERVERS_MAX);
	entry = calloc(o->num_servers, sizeof(*entry));
	if (!entry)
		return kv_fail(err, -KV_ENOMEM, "no memory for the list of servers");
	rc = check_list(o, entry, err);
	free(entry);
	return rc;
}

static int check_cluster(const struct kvc_options *o, struct kv_error *err)
{
	if (!o->cluster || !o->cluster[0] || kv_node_id_check(o->cluster, NULL) == 0)
		return 0;
	return kv_fail(err, -KV_EINVAL,
		       "the cluster's name '%.100s' must have 1 to %d characters of ASCII, without spaces, '=' and ','",
		       o->cluster, KV_NAME_MAX - 1);
}

static int check_space(const struct kvc_options *o, struct kv_error *err)
{
	size_t len = strlen(o->namespace_name);
	if (len > KVC_NAMESPACE_MAX)
		return kv_fail(err, -KV_EINVAL, "the namespace's name has %zu bytes; it may have %d", len,
			       KVC_NAMESPACE_MAX);
	if (!kv_space_check(o->namespace_name, len))
		return kv_fail(
			err, -KV_EINVAL,
			"the namespace's name must be UTF-8 without control characters: encode it, in base64 say");
	return 0;
}

static int check_security(const struct kvc_options *o, struct kv_error *err)
{
	unsigned pems = !!o->cert_file + !!o->key_file + !!o->ca_file;
	if (o->psk && o->psk_file)
		return kv_fail(err, -KV_EINVAL,
			       "a pre-shared key is given twice, as a file and directly; give one of them");
	if (pems && (o->psk || o->psk_file))
		return kv_fail(err, -KV_EINVAL, "both a pre-shared key and certificates are given; give one of them");
	if (pems != 0 && pems != 3)
		return kv_fail(err, -KV_EINVAL, "certificates need all three files: cert_file, key_file and ca_file");
	if (!pems && (o->server_name || o->crl_file))
		return kv_fail(err, -KV_EINVAL,
			       "%s is given without certificates: also give cert_file, key_file and ca_file",
			       o->server_name ? "server_name" : "crl_file");
	return 0;
}

/* Half of the cores; the rest is for a server on this host or the embedding program. On shm our loops do the copying.
 */
static unsigned threads_default(const char *provider)
{
	if (provider && strcasecmp(provider, "shm") == 0)
		return THREADS_MOST;
	return KV_MIN(KV_MAX(kv_cpus_available() / 2, 1u), (unsigned)THREADS_MOST);
}

int kc_options_fill(const struct kvc_options *given, struct kvc_options *out, struct kv_error *err)
{
	int rc;
	memset(out, 0, sizeof(*out));
	if (!given)
		return kv_fail(err, -KV_EINVAL, "no options are given; kvc_pool_open needs a server at least");
	rc = kc_sized_take(out, sizeof(*out), given, offsetof(struct kvc_options, flags), "struct kvc_options", err);
	if (rc < 0)
		return rc;
	fill_zero_u(&out->num_clients, 4);
	fill_zero_u(&out->num_threads, out->flags & KVC_NO_THREADS ? 1 : threads_default(out->provider));
	fill_zero_64(&out->buffer_bytes, (uint64_t)64 << 20);
	fill_zero_64(&out->timeout_ns, KV_TIMEOUT_DEFAULT_NS);
	fill_zero_64(&out->grace_ns, KV_GRACE_DEFAULT_NS);
	fill_zero_64(&out->connect_timeout_ns, KV_TIMEOUT_DEFAULT_NS);
	fill_zero_64(&out->peer_timeout_ns, PEER_TIMEOUT_DEFAULT);
	fill_zero_64(&out->base_client_id, 100);
	fill_zero_64(&out->settle_ns, SETTLE_DEFAULT_NS);
	fill_zero_64(&out->repair_bytes_s, REPAIR_DEFAULT);
	if (!out->namespace_name)
		out->namespace_name = "";
	if (out->servers_max == 0)
		out->servers_max = KV_MIN(KV_MAX(out->num_servers, (unsigned)SERVERS_ROOM), (unsigned)KC_SERVERS_MAX);
	rc = check_counts(out, err);
	out->buffer_bytes = kv_align_up(out->buffer_bytes, 4096);
	if (rc == 0 && out->grace_ns > GRACE_MAX_NS)
		rc = kv_fail(err, -KV_EINVAL,
			     "grace_ns is %llu s; at most a minute is possible, because "
			     "a call may exceed its deadline by this time",
			     (unsigned long long)(out->grace_ns / 1000000000));
	if (rc == 0)
		rc = check_servers(out, err);
	if (rc == 0)
		rc = check_cluster(out, err);
	if (rc == 0)
		rc = check_space(out, err);
	if (rc == 0)
		rc = check_security(out, err);
	return rc;
}
