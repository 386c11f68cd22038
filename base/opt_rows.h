/* SPDX-License-Identifier: Apache-2.0 */
/* opt_rows.h -- rows of option tables that several programs share, and the checks that go with them. An option that
 * means the same has the same name, bounds and help everywhere.
 *
 * A macro is one row (KV_OPT_SECURITY_ROWS: six) for a table of struct kv_opt. Its arguments complete the row: the
 * field
 * (.offset = ...), a heading, and what the macro leaves out because programs differ in it, such as a default or a .help
 * that names the program's own server. An argument cannot set again what the macro sets: -Woverride-init refuses it.
 *
 * Rejected: tables that name other tables. Everything that walks a table (--help, --config, the JSON report,
 * abbreviations) would have to walk a tree. */
#ifndef KVRAIL_BASE_OPT_ROWS_H
#define KVRAIL_BASE_OPT_ROWS_H

#include <stdbool.h>

#include "base/limits.h"
#include "base/opt.h"

/* ---- where to, and how ---- */

/* struct kv_opt_strings (KV_OPT_STRINGS), or const char * (KV_OPT_STRING) for one server. Without type and help. */
#define KV_OPT_SERVER_ROW(...)                                                                                         \
	{.name = "server", .alias = "server-addr", .letter = 's', .metavar = "SERVER", __VA_ARGS__}

/* const char * */
#define KV_OPT_PROVIDER_ROW(...)                                                                                       \
	{.name = "provider",                                                                                           \
	 .letter = 'p',                                                                                                \
	 .type = KV_OPT_STRING,                                                                                        \
	 .metavar = "NAME",                                                                                            \
	 .def = "auto",                                                                                                \
	 .help = "The libfabric provider that must be used: efa, efa-direct, verbs, tcp, tcp-native, shm, one of "     \
		 "libfabric's exact names, or auto.",                                                                  \
	 __VA_ARGS__}

/* const char * */
#define KV_OPT_NIC_ROW(...)                                                                                            \
	{.name = "nic",                                                                                                \
	 .type = KV_OPT_STRING,                                                                                        \
	 .metavar = "NAME[,NAME]",                                                                                     \
	 .help = "The NICs to use, in this order: device names or IP addresses of this machine.",                      \
	 __VA_ARGS__}

/* uint32_t */
#define KV_OPT_RAILS_ROW(...)                                                                                          \
	{.name = "rails",                                                                                              \
	 .type = KV_OPT_U32,                                                                                           \
	 .metavar = "N",                                                                                               \
	 .def = "0",                                                                                                   \
	 .max = KV_RAILS_MAX,                                                                                          \
	 .help = "NICs (rails) per client; 0: all of --nic; without --nic, on EFA its share of the machine's NICs, "   \
		 "else 1.",                                                                                            \
	 __VA_ARGS__}

/* int: enum kvc_numa of kvclient.h; 1 is off. */
extern const char *const kv_opt_numa_names[];
#define KV_OPT_NUMA_ROW(...)                                                                                           \
	{.name = "numa",                                                                                               \
	 .type = KV_OPT_CHOICE,                                                                                        \
	 .metavar = "WHICH",                                                                                           \
	 .def = "auto",                                                                                                \
	 .choices = kv_opt_numa_names,                                                                                 \
	 .help = "On a machine with several NUMA nodes, keep threads and memory on the node of their NICs",            \
	 __VA_ARGS__}

/* int: index into the names. Without its help. */
extern const char *const kv_opt_eviction_names[];
#define KV_OPT_EVICTION_ROW(...)                                                                                       \
	{.name = "eviction",                                                                                           \
	 .type = KV_OPT_CHOICE,                                                                                        \
	 .metavar = "POLICY",                                                                                          \
	 .def = "clock2g",                                                                                             \
	 .choices = kv_opt_eviction_names,                                                                             \
	 __VA_ARGS__}

/* int: enum kvc_door of kvclient.h, enum te_door of engine.h */
extern const char *const kv_opt_door_names[];
#define KV_OPT_DOOR_ROW(...)                                                                                           \
	{.name = "door",                                                                                               \
	 .type = KV_OPT_CHOICE,                                                                                        \
	 .metavar = "WHICH",                                                                                           \
	 .def = "auto",                                                                                                \
	 .choices = kv_opt_door_names,                                                                                 \
	 .help = "Whether a doorkeeper turns strangers away from this program's fabric ports over tcp (auto: where "   \
		 "it can; require: do not start without it)",                                                          \
	 __VA_ARGS__}

/* int: enum kvc_mode of kvclient.h */
extern const char *const kv_opt_mode_names[];
#define KV_OPT_MODE_ROW(...)                                                                                           \
	{.name = "mode",                                                                                               \
	 .type = KV_OPT_CHOICE,                                                                                        \
	 .metavar = "MODE",                                                                                            \
	 .def = "auto",                                                                                                \
	 .choices = kv_opt_mode_names,                                                                                 \
	 .help = "Which side moves the bytes of a GET (push: the server; pull: the client, with --allow-pull at the "  \
		 "server; auto: pull where the server allows it and the provider emulates writes but not reads)",      \
	 __VA_ARGS__}

/* ---- a run ---- */

enum { KV_OPT_WORKERS_MAX = 65536, KV_OPT_CLIENTS_MAX = 1024, KV_OPT_THREADS_MAX = 256 };

/* uint32_t, all four. server-threads: without default and help. */
#define KV_OPT_WORKERS_ROW(...)                                                                                        \
	{.name = "num-workers",                                                                                        \
	 .letter = 'w',                                                                                                \
	 .type = KV_OPT_U32,                                                                                           \
	 .metavar = "N",                                                                                               \
	 .def = "16",                                                                                                  \
	 .min = 1,                                                                                                     \
	 .max = KV_OPT_WORKERS_MAX,                                                                                    \
	 .help = "Workers: coroutines with one operation in flight each.",                                             \
	 __VA_ARGS__}
#define KV_OPT_CLIENTS_ROW(...)                                                                                        \
	{.name = "num-clients",                                                                                        \
	 .letter = 'c',                                                                                                \
	 .type = KV_OPT_U32,                                                                                           \
	 .metavar = "N",                                                                                               \
	 .def = "4",                                                                                                   \
	 .min = 1,                                                                                                     \
	 .max = KV_OPT_CLIENTS_MAX,                                                                                    \
	 .help = "Clients that the workers share, each with its own endpoint and registered buffer.",                  \
	 __VA_ARGS__}
#define KV_OPT_THREADS_ROW(...)                                                                                        \
	{.name = "num-threads",                                                                                        \
	 .letter = 't',                                                                                                \
	 .type = KV_OPT_U32,                                                                                           \
	 .metavar = "N",                                                                                               \
	 .def = "0",                                                                                                   \
	 .max = KV_OPT_THREADS_MAX,                                                                                    \
	 .help = "Event loop threads that run the clients. 0: half of the cores, 1 to 4; on shm 4.",                   \
	 __VA_ARGS__}
#define KV_OPT_SERVER_THREADS_ROW(...)                                                                                 \
	{.name = "server-threads", .type = KV_OPT_U32, .metavar = "N", .max = KV_SHARDS_MAX, __VA_ARGS__}

/* uint64_t; without its default. */
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
#define KV_OPT_PEER_TIMEOUT_ROW(...)                                                                                   \
	{.name = "peer-timeout",                                                                                       \
	 .type = KV_OPT_DURATION,                                                                                      \
	 .metavar = "TIME",                                                                                            \
	 .def = "2",                                                                                                   \
	 .min = 20000000,                                                                                              \
	 .max = 3600000000000ull,                                                                                      \
	 .help = "Silence after which a server counts as dead.",                                                       \
	 __VA_ARGS__}

/* ---- security of a client ---- */

struct kv_opt_security {
	const char *psk_file, *cert, *key, *ca, *crl, *server_name;
};

#define KV_OPT_SECURITY_ROW(n, at, text, ...)                                                                          \
	{.name = n, .type = KV_OPT_STRING, .metavar = "FILE", .offset = at, .help = text, __VA_ARGS__}
/* of: the struct that has a `struct kv_opt_security security`. */
#define KV_OPT_SECURITY_ROWS(of)                                                                                       \
	KV_OPT_SECURITY_ROW("psk-file", offsetof(of, security.psk_file),                                               \
			    "Pre-shared key of the servers: a file with one line IDENTITY:HEX.", .group = "Security"), \
		KV_OPT_SECURITY_ROW("cert", offsetof(of, security.cert), "Certificate of this client (PEM)."),         \
		KV_OPT_SECURITY_ROW("key", offsetof(of, security.key), "Private key of the certificate (PEM)."),       \
		KV_OPT_SECURITY_ROW("ca", offsetof(of, security.ca),                                                   \
				    "Certificate of the authority that signed the servers' certificates (PEM)."),      \
		KV_OPT_SECURITY_ROW("crl", offsetof(of, security.crl),                                                 \
				    "Revocation lists of that authority and of those below it (PEM); read again when " \
				    "the file changes."),                                                              \
	{                                                                                                              \
		.name = "server-name", .type = KV_OPT_STRING, .metavar = "NAME",                                       \
		.offset = offsetof(of, security.server_name),                                                          \
		.help = "Name that the servers' certificates must have (default: the host of --server as written).",   \
	}

/* ---- output ---- */

/* const char *; --json of a report */
#define KV_OPT_JSON_ROW(...)                                                                                           \
	{.name = "json",                                                                                               \
	 .letter = 'j',                                                                                                \
	 .type = KV_OPT_STRING,                                                                                        \
	 .metavar = "FILE",                                                                                            \
	 .help = "Write the report as JSON to FILE; - is standard output (the text then goes to standard error).",     \
	 __VA_ARGS__}

/* int: enum kv_log_level, without trace, which the library does not log. Without default and help. */
extern const char *const kv_opt_level_names[];
#define KV_OPT_LOG_LEVEL_ROW(...)                                                                                      \
	{.name = "log-level", .type = KV_OPT_CHOICE, .metavar = "LEVEL", .choices = kv_opt_level_names, __VA_ARGS__}

/* uint32_t; without its help. */
#define KV_OPT_SLOW_ROW(...)                                                                                           \
	{.name = "slow-ms",                                                                                            \
	 .type = KV_OPT_U32,                                                                                           \
	 .unit = KV_OPT_MS,                                                                                            \
	 .metavar = "TIME",                                                                                            \
	 .def = "0",                                                                                                   \
	 .max = 3600000,                                                                                               \
	 __VA_ARGS__}

/* bool */
#define KV_OPT_CONFIG_ROW(...)                                                                                         \
	{.name = "config", .type = KV_OPT_FLAG, .help = "Print the effective configuration and exit.", __VA_ARGS__}

/* ---- checks ---- */

/* kv_opt_security_check -- whether the options give a key, certificates, or neither. 0 or -KV_EINVAL with *err. */
int kv_opt_security_check(const struct kv_opt_security *security, struct kv_error *err);

/* kv_opt_security_given -- whether any of the six options is given. */
bool kv_opt_security_given(const struct kv_opt_security *security);

/* kv_opt_json_check -- refuse a --json that cannot be written, before a run is done in vain: an empty name, or a
 * directory. NULL and "-" are good. 0 or -KV_EINVAL with *err. */
int kv_opt_json_check(const char *path, struct kv_error *err);

/* kv_opt_servers_check -- whether each item is [NAME=]HOST:PORT, before anything is started. 0 or -KV_EINVAL with *err.
 */
int kv_opt_servers_check(const char *const *servers, unsigned count, struct kv_error *err);

#endif
