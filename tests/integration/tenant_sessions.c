/* SPDX-License-Identifier: Apache-2.0 */
/* tenant_sessions.c -- two tenants over one connection of one process: each session has the rights of its own key.
 *
 *   tenant_sessions SERVER PSK_FILE SESSION_KEY_FILE     0: as it should be; 1: not; 2: it could not be tried
 *
 * The client's own key may read the namespace "public", that of the session may write there as well. In the namespace
 * "acme" of a second pool the client has all rights, and the session none. */
#include <stdio.h>
#include <string.h>

#include <kvrail/kvclient.h>

static int wrong;

static void expect(const char *what, long long got, long long want)
{
	if (got == want)
		return;
	fprintf(stderr, "%s: %lld, expected %lld\n", what, got, want);
	wrong = 1;
}

static struct kvc_pool *pool_of(const char *server, const char *psk_file, const char *space)
{
	const char *servers[] = {server};
	struct kvc_options o = {.size = sizeof(o),
				.servers = servers,
				.num_servers = 1,
				.num_clients = 1,
				.psk_file = psk_file,
				.namespace_name = space,
				.flags = KVC_OPEN_WAIT};
	struct kvc_pool *pool = NULL;
	struct kv_error err;
	if (kvc_pool_open(&o, &pool, &err) != 0)
		fprintf(stderr, "%s\n", err.text);
	return pool;
}

static struct kvc_session *session_of(struct kvc_pool *pool, const char *psk)
{
	const struct kvc_session_options o = {.size = sizeof(o), .psk = psk};
	struct kvc_session *session = NULL;
	struct kv_error err;
	if (kvc_session_open(pool, 0, &o, &session, &err) != 0)
		fprintf(stderr, "%s\n", err.text);
	return session;
}

static int line_read(const char *path, char *buf, int cap)
{
	FILE *file = fopen(path, "r");
	int ok = file && fgets(buf, cap, file);
	if (file)
		fclose(file);
	buf[strcspn(buf, "\r\n")] = 0;
	return ok;
}

/* What a session may do with a key: of the pool's own identity (NULL), or of its own. */
static void check(struct kvc_pool *pool, struct kvc_session *session, const char *name, int put, int get)
{
	const struct kvc_call call = {.size = sizeof(call), .session = session};
	const struct kvc_key key = {name, strlen(name)};
	char got[16];
	expect(session ? "PUT of the session" : "PUT", kvc_put(pool, key, name, strlen(name), &call), put);
	expect(session ? "GET of the session" : "GET", kvc_get(pool, key, got, sizeof(got), &call),
	       get ? get : (long long)strlen(name));
}

int main(int argc, char **argv)
{
	char psk[512] = "";
	struct kvc_pool *common, *own;
	struct kvc_session *guest, *stranger;
	if (argc < 4 || !line_read(argv[3], psk, sizeof(psk)))
		return 2;
	common = pool_of(argv[1], argv[2], "public");
	own = common ? pool_of(argv[1], argv[2], "acme") : NULL;
	guest = own ? session_of(common, psk) : NULL;
	stranger = guest ? session_of(own, psk) : NULL;
	if (!stranger)
		return 2;
	check(common, NULL, "reader", -KV_EDENIED, -KV_ENOTFOUND);
	check(common, guest, "writer", 0, 0);
	check(common, NULL, "writer", -KV_EDENIED, 0); /* it may read what the other one has stored */
	check(own, NULL, "mine", 0, 0);
	check(own, stranger, "mine", -KV_EDENIED, -KV_ENOTFOUND); /* a namespace without rights does not exist */
	expect("DELETE of the session",
	       kvc_delete(own, (struct kvc_key){"mine", 4},
			  &(struct kvc_call){.size = sizeof(struct kvc_call), .session = stranger}),
	       -KV_ENOTFOUND);
	check(own, NULL, "mine", 0, 0);
	kvc_pool_close(&common);
	kvc_pool_close(&own);
	return wrong;
}
