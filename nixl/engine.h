/* SPDX-License-Identifier: Apache-2.0 */
/* engine.h -- the back end: NIXL's calls on a pool and a queue of libkvrail. */
#ifndef KVRAIL_NIXL_ENGINE_H
#define KVRAIL_NIXL_ENGINE_H

#include <memory>
#include <string>
#include <vector>

#include "nixl/interface.h"
#include "nixl/pool.h"
#include "nixl/transfer.h"

namespace kvrail
{

/* NIXL calls it from several threads: register, deregister and the end alone, all others at the same time. No exception
 * leaves it. A call that fails writes one line about it, with cause and remedy. */
class engine : public nixlBackendEngine
{
      public:
	/* Throws std::exception with a sentence. */
	explicit engine(const nixlBackendInitParams *params);
	~engine() override;
	/* A storage on this side only. */
	bool supportsRemote() const override
	{
		return false;
	}
	bool supportsLocal() const override
	{
		return true;
	}
	bool supportsNotif() const override
	{
		return false;
	}
	nixl_mem_list_t getSupportedMems() const override;
	nixl_status_t registerMem(const nixlBlobDesc &mem, const nixl_mem_t &type, nixlBackendMD *&out) override;
	nixl_status_t deregisterMem(nixlBackendMD *meta) override;
	nixl_status_t connect(const std::string &) override
	{
		return NIXL_SUCCESS;
	}
	nixl_status_t disconnect(const std::string &) override
	{
		return NIXL_SUCCESS;
	}
	nixl_status_t unloadMD(nixlBackendMD *) override
	{
		return NIXL_SUCCESS; /* that of loadLocalMD, which is deregistered as itself */
	}
	nixl_status_t loadLocalMD(nixlBackendMD *input, nixlBackendMD *&output) override
	{
		output = input;
		return NIXL_SUCCESS;
	}
	nixl_status_t prepXfer(const nixl_xfer_op_t &op, const nixl_meta_dlist_t &local,
			       const nixl_meta_dlist_t &remote, const std::string &remote_agent,
			       nixlBackendReqH *&handle, const nixl_opt_b_args_t *) const override;
	nixl_status_t postXfer(const nixl_xfer_op_t &op, const nixl_meta_dlist_t &local,
			       const nixl_meta_dlist_t &remote, const std::string &remote_agent,
			       nixlBackendReqH *&handle, const nixl_opt_b_args_t *) const override;
	nixl_status_t checkXfer(nixlBackendReqH *handle) const override;
	nixl_status_t releaseReqH(nixlBackendReqH *handle) const override;
	nixl_status_t queryMem(const nixl_reg_dlist_t &descs, std::vector<nixl_query_resp_t> &resp) const override;

      private:
	object object_of(const nixlBlobDesc &desc) const;
	nixl_status_t memory_register(const nixlBlobDesc &mem, nixlBackendMD *&out);
	nixl_status_t refuse(nixl_status_t status, const std::string &text) const;
	nixl_status_t ended(transfer *t, nixl_status_t status) const;
	std::string remedy(int64_t code) const;
	template <class F> nixl_status_t guarded(F body) const;

	settings settings_;
	std::shared_ptr<pool> pool_;
	mutable channel channel_;
};

/* last_statuses -- the statuses of the descriptors of the transfer whose end this thread saw last. */
const std::vector<int> &last_statuses();

} // namespace kvrail

#endif
