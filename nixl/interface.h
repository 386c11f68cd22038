/* SPDX-License-Identifier: Apache-2.0 */
/* interface.h -- NIXL's interface for plug-ins: the user's headers, or our own declaration of it.
 *
 * With KVRAIL_NIXL_HEADERS it is NIXL's backend/backend_plugin.h (make nixl NIXL=DIR). Else the declarations below have
 * the layout and the order of virtual functions that NIXL 1.4.1 to 1.5.1 have on x86-64 and arm64 with libstdc++; names
 * are NIXL's, because both ways compile the same plug-in. Only what this plug-in touches is here.
 *
 * KVRAIL_NIXL_API is the number that the host compares: 1 in all of these releases. 2 is that of NIXL's main branch
 * after 1.5.1: the parameters of an engine have one more field, behind all others. */
#ifndef KVRAIL_NIXL_INTERFACE_H
#define KVRAIL_NIXL_INTERFACE_H

#ifdef KVRAIL_NIXL_HEADERS
#include "backend/backend_plugin.h"
#else

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#ifndef KVRAIL_NIXL_API
#define KVRAIL_NIXL_API 1
#endif
#define NIXL_PLUGIN_API_VERSION KVRAIL_NIXL_API
#define NIXL_PLUGIN_EXPORT      __attribute__((visibility("default")))

enum nixl_mem_t { DRAM_SEG, VRAM_SEG, BLK_SEG, OBJ_SEG, FILE_SEG };
enum nixl_xfer_op_t { NIXL_READ, NIXL_WRITE };
enum nixl_status_t {
	NIXL_IN_PROG = 1,
	NIXL_SUCCESS = 0,
	NIXL_ERR_NOT_POSTED = -1,
	NIXL_ERR_INVALID_PARAM = -2,
	NIXL_ERR_BACKEND = -3,
	NIXL_ERR_NOT_FOUND = -4,
	NIXL_ERR_MISMATCH = -5,
	NIXL_ERR_NOT_ALLOWED = -6,
	NIXL_ERR_REPOST_ACTIVE = -7,
	NIXL_ERR_UNKNOWN = -8,
	NIXL_ERR_NOT_SUPPORTED = -9,
	NIXL_ERR_REMOTE_DISCONNECT = -10,
	NIXL_ERR_CANCELED = -11,
	NIXL_ERR_NO_TELEMETRY = -12
};
enum class nixl_thread_sync_t : int {};
enum class nixl_cost_t : int {};

using nixl_mem_list_t = std::vector<nixl_mem_t>;
using nixl_b_params_t = std::unordered_map<std::string, std::string>;
using nixl_query_resp_t = std::optional<nixl_b_params_t>;
using notif_list_t = std::vector<std::pair<std::string, std::string>>;
using nixlMemViewH = void *;

struct nixlAgentOptionalArgs;
struct nixlBackendOptionalArgs;
struct nixlRemoteMetaDesc;
using nixl_opt_b_args_t = nixlBackendOptionalArgs;

/* ---- descriptors ---- */

struct nixlBasicDesc {
	uintptr_t addr; /* DRAM: an address; OBJ: an offset in the value */
	size_t len;
	uint64_t devId;
};
struct nixlBlobDesc : nixlBasicDesc {
	std::string metaInfo;
};

class nixlBackendMD
{
      public:
	nixlBackendMD(bool is_private) : isPrivateMD(is_private)
	{
	}
	virtual ~nixlBackendMD() = default;

      protected:
	bool isPrivateMD;
};
struct nixlMetaDesc : nixlBasicDesc {
	nixlBackendMD *metadataP;
};

/* Lists are the host's: the plug-in reads them, and makes none (except for tests). */
template <class T> class nixlDescList
{
      public:
	nixlDescList(nixl_mem_t mem) : type(mem)
	{
	}
	virtual ~nixlDescList() = default;
	nixl_mem_t getType() const
	{
		return type;
	}
	int descCount() const
	{
		return (int)descs.size();
	}
	const T &operator[](size_t i) const
	{
		return descs[i];
	}
	void add(const T &desc)
	{
		descs.push_back(desc);
	}

      protected:
	nixl_mem_t type;
	std::vector<T> descs;
};
using nixl_meta_dlist_t = nixlDescList<nixlMetaDesc>;
using nixl_remote_meta_dlist_t = nixlDescList<nixlRemoteMetaDesc>;
using nixl_reg_dlist_t = nixlDescList<nixlBlobDesc>;

/* ---- engines ---- */

class nixlBackendReqH
{
      public:
	virtual ~nixlBackendReqH() = default;
};

class nixlBackendInitParams
{
      public:
	std::string localAgent, type;
	nixl_b_params_t *customParams = nullptr;
	bool enableProgTh = false;
	uint64_t pthrDelay = 0;
	nixl_thread_sync_t syncMode{};
	bool enableTelemetry_ = false;
#if KVRAIL_NIXL_API >= 2
	bool enableLoopback = true;
#endif
};

/* The host reads these members without a call, so their places count. */
class nixlBackendEngine
{
	struct telemetry_event {
		uint32_t type;
		uint64_t value;
	};
	std::string backendType;
	nixl_b_params_t customParams;
	std::vector<telemetry_event> telemetryEvents_;
	std::mutex telemetryEventsMutex_;

      protected:
	bool initErr = false;
	const std::string localAgent;
	const bool enableTelemetry_;

      public:
	explicit nixlBackendEngine(const nixlBackendInitParams *params)
	    : backendType(params->type), customParams(*params->customParams), localAgent(params->localAgent),
	      enableTelemetry_(params->enableTelemetry_)
	{
	}
	nixlBackendEngine(const nixlBackendEngine &) = delete;
	void operator=(const nixlBackendEngine &) = delete;
	virtual ~nixlBackendEngine() = default;

	const std::string &getType() const
	{
		return backendType;
	}

	/* The order of all these is the interface. */
	virtual bool supportsRemote() const = 0;
	virtual bool supportsLocal() const = 0;
	virtual bool supportsNotif() const = 0;
	virtual nixl_mem_list_t getSupportedMems() const = 0;
	virtual nixl_status_t registerMem(const nixlBlobDesc &, const nixl_mem_t &, nixlBackendMD *&) = 0;
	virtual nixl_status_t deregisterMem(nixlBackendMD *) = 0;
	virtual nixl_status_t connect(const std::string &) = 0;
	virtual nixl_status_t disconnect(const std::string &) = 0;
	virtual nixl_status_t unloadMD(nixlBackendMD *) = 0;
	virtual nixl_status_t prepXfer(const nixl_xfer_op_t &, const nixl_meta_dlist_t &, const nixl_meta_dlist_t &,
				       const std::string &, nixlBackendReqH *&,
				       const nixl_opt_b_args_t * = nullptr) const = 0;
	virtual nixl_status_t postXfer(const nixl_xfer_op_t &, const nixl_meta_dlist_t &, const nixl_meta_dlist_t &,
				       const std::string &, nixlBackendReqH *&,
				       const nixl_opt_b_args_t * = nullptr) const = 0;
	virtual nixl_status_t checkXfer(nixlBackendReqH *) const = 0;
	virtual nixl_status_t releaseReqH(nixlBackendReqH *) const = 0;
	virtual nixl_status_t prepMemView(const nixl_remote_meta_dlist_t &, nixlMemViewH &,
					  const nixl_opt_b_args_t * = nullptr) const
	{
		return NIXL_ERR_NOT_SUPPORTED;
	}
	virtual nixl_status_t prepMemView(const nixl_meta_dlist_t &, nixlMemViewH &,
					  const nixl_opt_b_args_t * = nullptr) const
	{
		return NIXL_ERR_NOT_SUPPORTED;
	}
	virtual void releaseMemView(nixlMemViewH) const
	{
	}
	virtual nixl_status_t getPublicData(const nixlBackendMD *, std::string &) const
	{
		return NIXL_ERR_BACKEND;
	}
	virtual nixl_status_t getConnInfo(std::string &) const
	{
		return NIXL_ERR_BACKEND;
	}
	virtual nixl_status_t loadRemoteConnInfo(const std::string &, const std::string &)
	{
		return NIXL_ERR_BACKEND;
	}
	virtual nixl_status_t loadRemoteMD(const nixlBlobDesc &, const nixl_mem_t &, const std::string &,
					   nixlBackendMD *&)
	{
		return NIXL_ERR_BACKEND;
	}
	virtual nixl_status_t loadLocalMD(nixlBackendMD *, nixlBackendMD *&)
	{
		return NIXL_ERR_BACKEND;
	}
	virtual nixl_status_t getNotifs(notif_list_t &)
	{
		return NIXL_ERR_BACKEND;
	}
	virtual nixl_status_t genNotif(const std::string &, const std::string &) const
	{
		return NIXL_ERR_BACKEND;
	}
	virtual nixl_status_t queryMem(const nixl_reg_dlist_t &, std::vector<nixl_query_resp_t> &) const
	{
		return NIXL_ERR_NOT_SUPPORTED;
	}
	virtual nixl_status_t estimateXferCost(const nixl_xfer_op_t &, const nixl_meta_dlist_t &,
					       const nixl_meta_dlist_t &, const std::string &, nixlBackendReqH *const &,
					       std::chrono::microseconds &, std::chrono::microseconds &, nixl_cost_t &,
					       const nixlAgentOptionalArgs * = nullptr) const
	{
		return NIXL_ERR_NOT_SUPPORTED;
	}
};

class nixlBackendPlugin
{
      public:
	int api_version;
	nixlBackendEngine *(*create_engine)(const nixlBackendInitParams *);
	void (*destroy_engine)(nixlBackendEngine *);
	const char *(*get_plugin_name)();
	const char *(*get_plugin_version)();
	nixl_b_params_t (*get_backend_options)();
	nixl_mem_list_t (*get_backend_mems)();
};

/* A compiler or a library with another layout needs NIXL's headers. */
#if defined(__x86_64__) && defined(__GLIBCXX__) && _GLIBCXX_USE_CXX11_ABI
static_assert(sizeof(nixlBlobDesc) == 56 && sizeof(nixlMetaDesc) == 32 && sizeof(nixl_meta_dlist_t) == 40);
static_assert(sizeof(nixlBackendMD) == 16 && sizeof(nixlBackendInitParams) == 96);
static_assert(sizeof(nixlBackendEngine) == 208 && sizeof(nixlBackendPlugin) == 56);
#endif

#endif
#endif
