/* SPDX-License-Identifier: Apache-2.0 */
/* pool.h -- a pool of libkvrail that the back ends of this process share, and the memory registered with it. */
#ifndef KVRAIL_NIXL_POOL_H
#define KVRAIL_NIXL_POOL_H

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "kvclient/kvclient.h"
#include "nixl/settings.h"

namespace kvrail
{

class pool
{
      public:
	/* pool_of -- the pool with these settings: that of another back end of this process, or a new one.
	 * Thread: any; blocks as kvc_pool_open. Throws std::runtime_error with the library's sentence. */
	static std::shared_ptr<pool> of(const settings &s);
	explicit pool(const settings &s);
	~pool();
	pool(const pool &) = delete;
	void operator=(const pool &) = delete;

	kvc_pool *get() const
	{
		return pool_;
	}
	/* close -- end all calls and registrations. Later calls on the pool fail. Blocks as kvc_pool_close. */
	void close();

	/* enter -- register [base, base + len), or count one more user of it. Memory that overlaps another
	 * registration, or is beyond the library's number of them, is not registered: its values are copied.
	 * *out_entered: whether leave() must be called. Returns 0, or a code with a sentence in *err. */
	int enter(void *base, size_t len, bool *out_entered, kv_error *err);
	/* leave -- undo enter(). Blocks until no transfer uses the memory any more. Only after 0 may it be unmapped. */
	int leave(void *base);

	/* why_down -- the reason why a server is not up, or "". For the text of an error: waits 10 ms at most. */
	std::string why_down() const;

      private:
	struct region {
		kvc_mem *mem;
		size_t len;
		unsigned users;
	};
	bool overlaps(uintptr_t base, size_t len) const;

	kvc_pool *pool_ = nullptr;
	int log_level_;
	std::mutex lock_; /* of regions_ */
	std::map<uintptr_t, region> regions_;
};

} // namespace kvrail

#endif
