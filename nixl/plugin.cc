/* SPDX-License-Identifier: Apache-2.0 */
/* plugin.cc -- the functions by which NIXL finds the plug-in, and one of ours for callers that need a status for each
 * descriptor, which NIXL's interface does not have. */
#include <algorithm>
#include <exception>

#include "kvclient/kvclient.h"
#include "nixl/engine.h"
#include "nixl/log.h"

namespace
{

nixlBackendEngine *create(const nixlBackendInitParams *params)
{
	try {
		return new kvrail::engine(params);
	} catch (const std::exception &e) {
		kvrail::say(kvrail::LOG_ALWAYS, kvrail::LOG_ALWAYS, "back end %s cannot be created: %s",
			    params->type.c_str(), e.what());
		return nullptr;
	}
}

void destroy(nixlBackendEngine *engine)
{
	delete engine;
}

nixlBackendPlugin plugin = {
	NIXL_PLUGIN_API_VERSION,
	create,
	destroy,
	[] { return "KVRAIL"; },
	[] { return kvc_version(); },
	[] { return kvrail::settings_defaults(); },
	[]() -> nixl_mem_list_t { return {DRAM_SEG, OBJ_SEG}; },
};

} // namespace

extern "C" {

NIXL_PLUGIN_EXPORT nixlBackendPlugin *nixl_plugin_init()
{
	return &plugin;
}

NIXL_PLUGIN_EXPORT void nixl_plugin_fini()
{
}

/* kvrail_nixl_statuses -- the nixl_status_t of each descriptor of the transfer whose end this thread saw last, by
 * checkXfer or postXfer (getXferStatus, postXferReq): at most max of them, in the order of the descriptors. After a
 * transfer that ended with an error, those with 0 are done. Thread: any; never blocks.
 * Returns how many descriptors the transfer has; 0: this thread saw none end. */
NIXL_PLUGIN_EXPORT unsigned kvrail_nixl_statuses(int *out, unsigned max);
NIXL_PLUGIN_EXPORT unsigned kvrail_nixl_statuses(int *out, unsigned max)
{
	const std::vector<int> &all = kvrail::last_statuses();
	std::copy_n(all.begin(), std::min<size_t>(all.size(), max), out);
	return (unsigned)all.size();
}
}
