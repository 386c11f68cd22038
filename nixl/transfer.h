/* SPDX-License-Identifier: Apache-2.0 */
/* transfer.h -- a NIXL transfer: descriptors as items of submitted batches, and a status for each descriptor. */
#ifndef KVRAIL_NIXL_TRANSFER_H
#define KVRAIL_NIXL_TRANSFER_H

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "kvclient/kvclient.h"
#include "nixl/interface.h"

namespace kvrail
{

/* A value that was registered as OBJ_SEG. Transfers share it, so it may be deregistered before they are released. */
struct object {
	std::string key;  /* as the servers know it: folded */
	std::string name; /* as it was registered */
	uint64_t len;     /* of the registration */
};

/* The queue of one back end, and the options of its calls. */
struct channel {
	kvc_queue *queue = nullptr;
	uint64_t timeout_ns = 0; /* 0: as the library's calls */
	uint32_t ttl_s = 0;

	/* reap -- take all completions, of any transfer. Thread: any; does not block.
	 * Returns 0; -KV_ECLOSED in a child of fork(), where none comes. */
	int reap();
};

/* now_ns -- the monotonic clock. timeout_of -- how long a call may take: timeout_ns, or the library's default. */
uint64_t now_ns();
uint64_t timeout_of(uint64_t timeout_ns, uint64_t bytes);

/* status_of -- NIXL's status for a code of the library. Never NIXL_ERR_REMOTE_DISCONNECT: for that an agent forgets the
 * remote agent's metadata, and the remote agent of a storage is the agent itself. */
nixl_status_t status_of(int64_t code);

/* Every call on a transfer holds `lock`; transfers of several threads do not disturb each other. */
class transfer : public nixlBackendReqH
{
      public:
	/* One descriptor. */
	struct part {
		std::shared_ptr<const object> of;
		char *data;
		uint64_t offset, len; /* of the value */
		bool longer;          /* the value is longer than a READ has asked for */
		unsigned batch, item; /* carry it */
	};

	/* Plans the batches. Throws std::invalid_argument with a sentence. */
	transfer(channel *to, nixl_xfer_op_t op, std::vector<part> parts);

	/* post -- submit all, also again. Never blocks. Failures are check's: engines expect no exception from a post.
	 * Returns NIXL_IN_PROG, or NIXL_ERR_REPOST_ACTIVE. */
	nixl_status_t post();
	/* check -- NIXL_IN_PROG; or the status of the ended transfer: the first failure that is not a missing value,
	 * else NIXL_ERR_NOT_FOUND, else success. Never blocks. */
	nixl_status_t check();
	/* cancel -- give it up, and wait until nothing touches the caller's memory, but not beyond `bound_ns`. False:
	 * the memory is still in use. */
	bool cancel(uint64_t bound_ns);

	bool under_way() const
	{
		return under_way_;
	}
	/* The status of each descriptor of the ended transfer. */
	const std::vector<int> &statuses() const
	{
		return statuses_;
	}
	/* failure -- a sentence about the failed descriptors. *out_code: the library's code of the first one. */
	std::string failure(int64_t *out_code) const;

	std::mutex lock;

      private:
	friend struct channel;
	struct batch {
		transfer *owner;
		uint64_t offset, length; /* as in struct kvc_call */
		std::vector<kvc_item> items;
		int64_t id; /* 0: not submitted */
		int code;   /* why it never was; 0: it will be */
	};

	void plan();
	void plan_value(std::vector<unsigned> &group);
	uint64_t length_for(const part &first, uint64_t len) const;
	unsigned batch_for(uint64_t offset, uint64_t length);
	void single_add(unsigned p);
	void joined_add(const std::vector<unsigned> &group);
	void submit(batch *b);
	void submit_rest();
	void abandon();
	void longer_again();
	int64_t result(const part &p) const;
	nixl_status_t status(const part &p) const;
	void settle();

	channel *to_;
	nixl_xfer_op_t op_;
	std::vector<part> parts_;
	std::deque<batch> batches_;
	size_t open_ = 0;    /* batches from here on may get items */
	size_t planned_ = 0; /* batches of the plan; those behind repeat items of values that are longer */
	std::deque<kvc_layout> layouts_;
	std::deque<std::vector<kvc_span>> spans_;
	std::atomic<unsigned> pending_{0}; /* ids to be reaped; the last field that a reaper touches */
	unsigned unsubmitted_ = 0;
	bool under_way_ = false, cancelled_ = false;
	uint64_t deadline_ns_ = 0, bytes_ = 0;
	std::vector<int> statuses_;
	nixl_status_t ended_ = NIXL_ERR_NOT_POSTED;
};

} // namespace kvrail

#endif
