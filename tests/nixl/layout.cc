/* SPDX-License-Identifier: Apache-2.0 */
/* layout.cc -- prints sizes, places of members and the order of virtual functions of NIXL's interface. Compiled with
 * our declaration and with NIXL's headers it must print the same (tests/engines/nixl.sh with NIXL=DIR). Members are
 * private: -fno-access-control. */
#include <cstddef>
#include <cstdio>
#include <cstring>

#include "nixl/interface.h"

/* A pointer to a virtual function holds its place in the table. */
template <class F> size_t place(F function)
{
	size_t at = 0;
	memcpy(&at, &function, sizeof(at));
	return at;
}

#define SIZE(type)         printf("sizeof %s %zu\n", #type, sizeof(type))
#define MEMBER(type, name) printf("%s.%s %zu\n", #type, #name, offsetof(type, name))
#define FUNCTION(name)     printf("%s %zu\n", #name, place(&nixlBackendEngine::name))
#define CONSTANT(name)     printf("%s %d\n", #name, (int)(name))

int main()
{
	SIZE(nixlBasicDesc);
	SIZE(nixlBackendMD);
	SIZE(nixlBackendReqH);
	SIZE(nixlBlobDesc);
	SIZE(nixlMetaDesc);
	SIZE(nixl_meta_dlist_t);
	SIZE(nixl_reg_dlist_t);
	SIZE(nixlBackendInitParams);
	SIZE(nixlBackendEngine);
	SIZE(nixlBackendPlugin);
	MEMBER(nixlBlobDesc, metaInfo);
	MEMBER(nixlMetaDesc, metadataP);
	MEMBER(nixl_meta_dlist_t, type);
	MEMBER(nixl_meta_dlist_t, descs);
	MEMBER(nixl_reg_dlist_t, type);
	MEMBER(nixl_reg_dlist_t, descs);
	MEMBER(nixlBackendInitParams, localAgent);
	MEMBER(nixlBackendInitParams, type);
	MEMBER(nixlBackendInitParams, customParams);
	MEMBER(nixlBackendInitParams, enableProgTh);
	MEMBER(nixlBackendInitParams, pthrDelay);
	MEMBER(nixlBackendInitParams, syncMode);
	MEMBER(nixlBackendInitParams, enableTelemetry_);
	MEMBER(nixlBackendEngine, backendType);
	MEMBER(nixlBackendEngine, customParams);
	MEMBER(nixlBackendEngine, telemetryEvents_);
	MEMBER(nixlBackendEngine, telemetryEventsMutex_);
	MEMBER(nixlBackendEngine, initErr);
	MEMBER(nixlBackendEngine, localAgent);
	MEMBER(nixlBackendEngine, enableTelemetry_);
	MEMBER(nixlBackendPlugin, api_version);
	MEMBER(nixlBackendPlugin, create_engine);
	MEMBER(nixlBackendPlugin, destroy_engine);
	MEMBER(nixlBackendPlugin, get_plugin_name);
	MEMBER(nixlBackendPlugin, get_plugin_version);
	MEMBER(nixlBackendPlugin, get_backend_options);
	MEMBER(nixlBackendPlugin, get_backend_mems);
	FUNCTION(supportsRemote);
	FUNCTION(supportsLocal);
	FUNCTION(supportsNotif);
	FUNCTION(getSupportedMems);
	FUNCTION(registerMem);
	FUNCTION(deregisterMem);
	FUNCTION(connect);
	FUNCTION(disconnect);
	FUNCTION(unloadMD);
	FUNCTION(prepXfer);
	FUNCTION(postXfer);
	FUNCTION(checkXfer);
	FUNCTION(releaseReqH);
	FUNCTION(releaseMemView);
	FUNCTION(getPublicData);
	FUNCTION(getConnInfo);
	FUNCTION(loadRemoteConnInfo);
	FUNCTION(loadRemoteMD);
	FUNCTION(loadLocalMD);
	FUNCTION(getNotifs);
	FUNCTION(genNotif);
	FUNCTION(queryMem);
	FUNCTION(estimateXferCost);
	CONSTANT(DRAM_SEG);
	CONSTANT(OBJ_SEG);
	CONSTANT(NIXL_READ);
	CONSTANT(NIXL_WRITE);
	CONSTANT(NIXL_IN_PROG);
	CONSTANT(NIXL_ERR_NOT_POSTED);
	CONSTANT(NIXL_ERR_INVALID_PARAM);
	CONSTANT(NIXL_ERR_BACKEND);
	CONSTANT(NIXL_ERR_NOT_FOUND);
	CONSTANT(NIXL_ERR_MISMATCH);
	CONSTANT(NIXL_ERR_NOT_ALLOWED);
	CONSTANT(NIXL_ERR_REPOST_ACTIVE);
	CONSTANT(NIXL_ERR_NOT_SUPPORTED);
	CONSTANT(NIXL_ERR_CANCELED);
}
