/* SPDX-License-Identifier: Apache-2.0 */
/* settings.h -- the parameters of a back end, read from NIXL's map of texts. */
#ifndef KVRAIL_NIXL_SETTINGS_H
#define KVRAIL_NIXL_SETTINGS_H

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "kvclient/kvclient.h"
#include "nixl/interface.h"

namespace kvrail
{

struct settings {
	/* The texts that `options` points to; the names of parameters. */
	std::map<std::string, std::string> text;
	std::vector<std::string> servers;
	std::vector<const char *> server_pointers;
	struct kvc_options options = {};
	struct kvc_queue_options queue = {};
	std::string prefix;      /* precedes every key */
	uint64_t timeout_ns = 0; /* of a transfer; 0: as the library's calls */
	uint32_t ttl_s = 0;

	settings() = default;
	settings(const settings &) = delete;
	void operator=(const settings &) = delete;
};

/* settings_read -- read and check the parameters of the back end `type`. A missing or empty one has its default. As
 * "OBJ" those of NIXL's plug-in for S3 are understood as well: endpoint_override, bucket, access_key with secret_key,
 * scheme. Throws std::invalid_argument with a sentence that names the parameter. */
void settings_read(const std::string &type, const nixl_b_params_t &given, settings *out);

/* settings_defaults -- every parameter with its default. */
nixl_b_params_t settings_defaults();

/* settings_pool -- the parameters of `s` that a pool depends on, as a text: equal texts may share a pool. It may
 * contain a secret. */
std::string settings_pool(const settings &s);

} // namespace kvrail

#endif
