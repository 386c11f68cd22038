/* SPDX-License-Identifier: Apache-2.0 */
/* opt_rows.h -- option rows and checks that several programs share.
 *
 * A macro is one row; KV_OPT_TARGET_ROWS, KV_OPT_SECURITY_ROWS and KV_OPT_SEAL_ROWS are several. Its arguments: the
 * field (.offset = ...), then all that differs between programs, such as .group, .def or .help. -Woverride-init reports
 * a field set twice. */
#ifndef KVRAIL_BASE_OPT_ROWS_H
#define KVRAIL_BASE_OPT_ROWS_H

#include <stdbool.h>

#include "base/limits.h"
#include "base/opt.h"

/* ---- servers and transport ---- */

/* struct kv_opt_strings (KV_OPT_STRINGS), or const char * (KV_OPT_STRING). The caller adds type and help. */
#define KV_OPT_SERVER_ROW(...)                                                                                         \
	{.name = "server", .alias = "server-addr", .letter = 's', .metavar = "SERVER", __VA_ARGS__}

/* const char * */
#define KV_OPT_NAMESPACE_ROW(...)                                                                                      \
	{.name = "namespace",                                                                                          \
	 .type = KV_OPT_STRING,                                                                                        \
	 .metavar = "NAME",                                                                                            \
	 .help = "The namespace of all keys: equal keys of two namespaces are two keys. Up to 64 bytes of text. "      \
		 "Without it, the default namespace.",                                                                 \
	 __VA_ARGS__}

/* const char * */
#define KV_OPT_CLUSTER_ROW(...)                                                                                        \
	{.name = "cluster",                                                                                            \
	 .type = KV_OPT_STRING,                                                                                        \
	 .metavar = "NAME",                                                                                            \
	 .help = "The cluster of the servers, as their --cluster names it; a server of another cluster, or of none, "  \
		 "refuses this client. Without it any cluster will do.",                                               \
	 __VA_ARGS__}

/* const char * */
#define KV_OPT_PROVIDER_ROW(at, ...)                                                                                   \
	KV_ROW_TEXT("provider", at, "NAME", "auto",                                                                    \
		    "The libfabric provider to use: efa, efa-direct, verbs, tcp, tcp-native, net, shm, one of "        \
		    "libfabric's exact names, or auto.",                                                               \
		    .letter = 'p', __VA_ARGS__)

/* const char * */
#define KV_OPT_NIC_ROW(at, ...)                                                                                        \
	KV_ROW_TEXT("nic", at, "NAME[,NAME]", NULL,                                                                    \
		    "The NICs to use, in this order: device names or IP addresses of this machine.", __VA_ARGS__)

/* uint32_t */
#define KV_OPT_RAILS_ROW(at, ...)                                                                                      \
	KV_ROW_U32("rails", at, "N", "0", 0, KV_RAILS_MAX,                                                             \
		   "NICs per client. 0: all of --nic; without --nic, on EFA, this client's share of the machine's "    \
		   "NICs; otherwise 1.",                                                                               \
		   __VA_ARGS__)

/* int: enum kvc_numa of kvclient.h; 1 is off. */
extern const char *const kv_opt_numa_names[];
#define KV_OPT_NUMA_ROW(at, ...)                                                                                       \
	KV_ROW_CHOICE("numa", at, "WHICH", "auto", kv_opt_numa_names,                                                  \
		      "Keep threads and memory on the NUMA node of their NICs, if the machine has several nodes",      \
		      __VA_ARGS__)

/* int: enum kvc_door of kvclient.h, enum te_door of engine.h */
extern const char *const kv_opt_door_names[];
#define KV_OPT_DOOR_ROW(at, ...)                                                                                       \
	KV_ROW_CHOICE("door", at, "WHICH", "auto", kv_opt_door_names,                                                  \
		      "The doorkeeper refuses connections of strangers to the fabric ports of this program (tcp). "    \
		      "auto: wherever it works; require: do not start without it; off: none. One of",                  \
		      __VA_ARGS__)

/* int: enum kvc_mode of kvclient.h */
extern const char *const kv_opt_mode_names[];
#define KV_OPT_MODE_ROW(at, ...)                                                                                       \
	KV_ROW_CHOICE(                                                                                                 \
		"mode", at, "MODE", "auto", kv_opt_mode_names,                                                         \
		"Which side moves the bytes of a GET. push: the server; pull: the client, if the server allows it "    \
		"(--allow-pull); auto: pull if the server allows it and the provider emulates writes but not "         \
		"reads. One of",                                                                                       \
		__VA_ARGS__)

/* int: enum kvc_local of kvclient.h */
extern const char *const kv_opt_local_names[];
#define KV_OPT_LOCAL_ROW(at, ...)                                                                                      \
	KV_ROW_CHOICE("local", at, "WHICH", "auto", kv_opt_local_names,                                                \
		      "Share memory with servers on this host. auto: if they offer it; off: always use the fabric. "   \
		      "One of",                                                                                        \
		      __VA_ARGS__)
/* const char * */
#define KV_OPT_LOCAL_SOCKET_ROW(at, ...)                                                                               \
	KV_ROW_TEXT("local-socket", at, "PATH", NULL,                                                                  \
		    "The Unix socket of the server on this host, where this container mounts it. Without it: the "     \
		    "name that the server reports.",                                                                   \
		    __VA_ARGS__)

/* ---- where a client goes ---- */

struct kv_opt_target {
	struct kv_opt_strings servers; /* --server, whose row is the program's own */
	const char *cluster, *space, *provider, *nic, *local_socket;
	uint32_t rails;
	int numa, door, mode, local; /* enums of kvclient.h */
};

/* In the initializer of a struct kvc_options; servers are the caller's. */
#define KV_OPT_TARGET_OF(t)                                                                                            \
	.cluster = (t).cluster, .namespace_name = (t).space, .provider = (t).provider, .nic = (t).nic,                 \
	.num_rails = (t).rails, .numa = (enum kvc_numa)(t).numa, .door = (enum kvc_door)(t).door,                      \
	.mode = (enum kvc_mode)(t).mode, .local = (enum kvc_local)(t).local, .local_socket = (t).local_socket

/* of: the type of the struct with a member `struct kv_opt_target target`. */
#define KV_OPT_TARGET_ROWS(of)                                                                                         \
	KV_OPT_CLUSTER_ROW(.offset = offsetof(of, target.cluster)),                                                    \
		KV_OPT_NAMESPACE_ROW(.offset = offsetof(of, target.space)),                                            \
		KV_OPT_PROVIDER_ROW(.offset = offsetof(of, target.provider)),                                          \
		KV_OPT_NIC_ROW(.offset = offsetof(of, target.nic)),                                                    \
		KV_OPT_RAILS_ROW(.offset = offsetof(of, target.rails)),                                                \
		KV_OPT_NUMA_ROW(.offset = offsetof(of, target.numa)),                                                  \
		KV_OPT_DOOR_ROW(.offset = offsetof(of, target.door)),                                                  \
		KV_OPT_MODE_ROW(.offset = offsetof(of, target.mode)),                                                  \
		KV_OPT_LOCAL_ROW(.offset = offsetof(of, target.local)),                                                \
		KV_OPT_LOCAL_SOCKET_ROW(.offset = offsetof(of, target.local_socket))

/* ---- a run ---- */

enum { KV_OPT_WORKERS_MAX = 65536, KV_OPT_CLIENTS_MAX = 1024, KV_OPT_THREADS_MAX = 256 };

/* uint32_t, all four. The caller adds the help of server-threads. */
#define KV_OPT_WORKERS_ROW(at, ...)                                                                                    \
	KV_ROW_U32("num-workers", at, "N", "16", 1, KV_OPT_WORKERS_MAX,                                                \
		   "Workers: coroutines with one operation in flight each.", .letter = 'w', __VA_ARGS__)
#define KV_OPT_CLIENTS_ROW(at, ...)                                                                                    \
	KV_ROW_U32("num-clients", at, "N", "4", 1, KV_OPT_CLIENTS_MAX,                                                 \
		   "Clients, shared by the workers. Each has an endpoint and a registered buffer.", .letter = 'c',     \
		   __VA_ARGS__)
#define KV_OPT_THREADS_ROW(at, ...)                                                                                    \
	KV_ROW_U32("num-threads", at, "N", "0", 0, KV_OPT_THREADS_MAX,                                                 \
		   "Threads of the clients' event loops. 0: half of the cores (1 to 4), or 4 on shm.", .letter = 't',  \
		   __VA_ARGS__)
#define KV_OPT_SERVER_THREADS_ROW(...)                                                                                 \
	{.name = "server-threads", .type = KV_OPT_U32, .metavar = "N", .max = KV_SHARDS_MAX, __VA_ARGS__}

/* uint64_t; the caller adds the default. */
#define KV_OPT_BUFFER_ROW(...)                                                                                         \
	{.name = "buffer-mb",                                                                                          \
	 .type = KV_OPT_U64,                                                                                           \
	 .unit = KV_OPT_MIB,                                                                                           \
	 .metavar = "SIZE",                                                                                            \
	 .min = 1,                                                                                                     \
	 .max = 1 << 16,                                                                                               \
	 .help = "Registered receive buffer of each client, in MiB.",                                                  \
	 __VA_ARGS__}

/* uint64_t */
#define KV_OPT_PEER_TIMEOUT_ROW(at, ...)                                                                               \
	KV_ROW_DURATION("peer-timeout", at, "2", 20000000, 3600000000000ull,                                           \
			"A server that is silent for this long counts as dead.", __VA_ARGS__)

/* ---- security of a client ---- */

struct kv_opt_security {
	const char *psk_file, *cert, *key, *ca, *crl, *server_name;
};

/* In the initializer of a struct kvc_options. */
#define KV_OPT_SECURITY_OF(s)                                                                                          \
	.psk_file = (s).psk_file, .cert_file = (s).cert, .key_file = (s).key, .ca_file = (s).ca, .crl_file = (s).crl,  \
	.server_name = (s).server_name

#define KV_OPT_SECURITY_ROW(n, at, text, ...)                                                                          \
	{.name = n, .type = KV_OPT_STRING, .metavar = "FILE", .offset = at, .help = text, __VA_ARGS__}
/* of: the type of the struct with a member `struct kv_opt_security security`. */
#define KV_OPT_SECURITY_ROWS(of)                                                                                       \
	KV_OPT_SECURITY_ROW("psk-file", offsetof(of, security.psk_file),                                               \
			    "Pre-shared key of the servers: a file whose last line is IDENTITY:HEX.",                  \
			    .group = "Security"),                                                                      \
		KV_OPT_SECURITY_ROW("cert", offsetof(of, security.cert), "Certificate of this client (PEM)."),         \
		KV_OPT_SECURITY_ROW("key", offsetof(of, security.key), "Private key of the certificate (PEM)."),       \
		KV_OPT_SECURITY_ROW("ca", offsetof(of, security.ca),                                                   \
				    "CA that signed the servers' certificates (PEM)."),                                \
		KV_OPT_SECURITY_ROW(                                                                                   \
			"crl", offsetof(of, security.crl),                                                             \
			"Revocation lists of that CA and of the CAs below it (PEM); read again when the file "         \
			"changes."),                                                                                   \
	{                                                                                                              \
		.name = "server-name", .type = KV_OPT_STRING, .metavar = "NAME",                                       \
		.offset = offsetof(of, security.server_name),                                                          \
		.help = "With certificates: the name to look for in the servers' certificates (default: the host "     \
			"of --server as written).",                                                                    \
	}

/* ---- sealed values ---- */

struct kv_opt_seal {
	const char *key_file;
	bool names;
};

/* of: the type of the struct with a member `struct kv_opt_seal seal`. */
#define KV_OPT_SEAL_ROWS(of)                                                                                           \
	KV_OPT_SECURITY_ROW("seal-key-file", offsetof(of, seal.key_file),                                              \
			    "Encrypt values with the first key of this file, and decrypt them with any of them, so "   \
			    "servers have ciphertext only. `kv-client make-seal-key FILE` makes one."),                \
		KV_ROW_FLAG("seal-names", .offset = offsetof(of, seal.names),                                          \
			    "With --seal-key-file: servers have no names of keys either, but their HMAC under the "    \
			    "key 'names' of the file.")

/* ---- output ---- */

/* const char *; --json of a report */
#define KV_OPT_JSON_ROW(at, ...)                                                                                       \
	KV_ROW_TEXT("json", at, "FILE", NULL,                                                                          \
		    "Write the report as JSON. -: to standard output; the text then goes to standard error.",          \
		    .letter = 'j', __VA_ARGS__)

/* int: enum kv_log_level. The caller adds default and help. */
extern const char *const kv_opt_level_names[];
#define KV_OPT_LOG_LEVEL_ROW(...)                                                                                      \
	{.name = "log-level", .type = KV_OPT_CHOICE, .metavar = "LEVEL", .choices = kv_opt_level_names, __VA_ARGS__}

/* uint32_t; the caller adds the help. */
#define KV_OPT_SLOW_ROW(...)                                                                                           \
	{.name = "slow-ms",                                                                                            \
	 .type = KV_OPT_U32,                                                                                           \
	 .unit = KV_OPT_MS,                                                                                            \
	 .metavar = "TIME",                                                                                            \
	 .def = "0",                                                                                                   \
	 .max = 3600000,                                                                                               \
	 __VA_ARGS__}

/* bool */
#define KV_OPT_CONFIG_ROW(at, ...) KV_ROW_FLAG("config", at, "Print the effective configuration and exit.", __VA_ARGS__)

/* ---- checks ---- */

/* kv_opt_security_check -- a key, certificates, or neither. 0 or -KV_EINVAL with *err. */
int kv_opt_security_check(const struct kv_opt_security *security, struct kv_error *err);

/* kv_opt_security_given -- whether any of the six is set. */
bool kv_opt_security_given(const struct kv_opt_security *security);

/* kv_opt_seal_check -- names need a file. 0 or -KV_EINVAL with *err. */
int kv_opt_seal_check(const struct kv_opt_seal *seal, struct kv_error *err);

/* kv_opt_json_check -- refuse an empty --json and a directory; NULL and "-" are good. Before a run. 0 or -KV_EINVAL
 * with *err. */
int kv_opt_json_check(const char *path, struct kv_error *err);

/* kv_opt_servers_check -- each entry is an address. 0 or -KV_EINVAL with *err. */
int kv_opt_servers_check(const char *const *servers, unsigned count, struct kv_error *err);

#endif
