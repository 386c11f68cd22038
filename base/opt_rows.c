/* SPDX-License-Identifier: Apache-2.0 */
/* opt_rows.c -- names and checks of shared options. The lists follow enums of higher layers (kvclient.h), compared by
 * tests/kvbench/test_options.c. */
#include "base/opt_rows.h"

#include <string.h>
#include <sys/stat.h>

#include "base/addr.h"
#include "base/error.h"
#include "base/log.h"

const char *const kv_opt_numa_names[] = {"auto", "off", NULL};
const char *const kv_opt_local_names[] = {"auto", "off", NULL};
const char *const kv_opt_door_names[] = {"auto", "require", "off", NULL};
const char *const kv_opt_mode_names[] = {"auto", "push", "pull", NULL};
const char *const kv_opt_level_names[] = {[KV_LOG_OFF] = "off",   [KV_LOG_ERROR] = "error", [KV_LOG_WARN] = "warn",
					  [KV_LOG_INFO] = "info", [KV_LOG_DEBUG] = "debug", NULL};

bool kv_opt_security_given(const struct kv_opt_security *s)
{
	return s->psk_file || s->cert || s->key || s->ca || s->crl || s->server_name;
}

int kv_opt_security_check(const struct kv_opt_security *s, struct kv_error *err)
{
	unsigned files = !!s->cert + !!s->key + !!s->ca;
	if (files != 0 && files != 3)
		return kv_fail(err, -KV_EINVAL, "--cert, --key and --ca belong together: give all three or none");
	if (files == 3 && s->psk_file)
		return kv_fail(err, -KV_EINVAL, "--psk-file and certificates exclude each other: give one of them");
	if (files == 0 && (s->crl || s->server_name))
		return kv_fail(err, -KV_EINVAL, "%s concerns certificates: give --cert, --key and --ca as well",
			       s->crl ? "--crl" : "--server-name");
	return 0;
}

int kv_opt_seal_check(const struct kv_opt_seal *seal, struct kv_error *err)
{
	if (seal->names && !seal->key_file)
		return kv_fail(err, -KV_EINVAL, "--seal-names needs --seal-key-file, with a line 'names:HEX'");
	return 0;
}

int kv_opt_json_check(const char *path, struct kv_error *err)
{
	struct stat st;
	if (path && !*path)
		return kv_fail(err, -KV_EINVAL, "--json needs the name of a file, or - for standard output");
	if (path && strcmp(path, "-") != 0 && stat(path, &st) == 0 && S_ISDIR(st.st_mode))
		return kv_fail(err, -KV_EINVAL, "--json %.200s is a directory: name a file", path);
	return 0;
}

int kv_opt_servers_check(const char *const *servers, unsigned count, struct kv_error *err)
{
	struct kv_server_entry entry;
	int rc = 0;
	for (unsigned i = 0; i < count && rc == 0; i++)
		rc = kv_server_entry_parse(servers[i], &entry, err);
	return rc;
}
