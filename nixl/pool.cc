/* SPDX-License-Identifier: Apache-2.0 */
/* pool.cc -- an engine such as LMCache creates several agents, each with a back end and all of the same memory: they
 * share one pool, so the process has its connections and its registrations once. The last back end closes the pool. A
 * child of fork() never finds its parent's pool, because the name of a pool has the process's number. */
#include "nixl/pool.h"

#include <cstring>
#include <iterator>
#include <stdexcept>

#include <unistd.h>

#include "nixl/log.h"

namespace kvrail
{
namespace
{

std::mutex pools_lock;
std::map<std::string, std::weak_ptr<pool>> pools;

/* At the end of a process whose agents were never destroyed: no thread of a pool outlives the libraries that it uses.
 */
struct closer {
	~closer()
	{
		std::unique_lock<std::mutex> held(pools_lock, std::try_to_lock);
		if (!held)
			return;
		for (auto &[name, weak] : pools) {
			if (std::shared_ptr<pool> open = weak.lock())
				open->close();
		}
	}
} at_exit;

} // namespace

std::shared_ptr<pool> pool::of(const settings &s)
{
	std::string name = std::to_string(getpid()) + '\n' + settings_pool(s);
	std::lock_guard<std::mutex> held(pools_lock);
	std::shared_ptr<pool> found = pools[name].lock();
	if (!found) {
		found = std::make_shared<pool>(s);
		pools[name] = found;
	}
	std::erase_if(pools, [](const auto &entry) { return entry.second.expired(); });
	return found;
}

pool::pool(const settings &s) : log_level_(s.options.log_level)
{
	kv_error err = {};
	int rc = kvc_pool_open(&s.options, &pool_, &err);
	if (rc < 0)
		throw std::runtime_error(err.text[0] ? err.text : kvc_strerror(rc));
}

pool::~pool()
{
	close();
}

void pool::close()
{
	kvc_pool_close(&pool_); /* registrations end with it */
}

bool pool::overlaps(uintptr_t base, size_t len) const
{
	auto next = regions_.lower_bound(base);
	if (next != regions_.end() && next->first < base + len)
		return true;
	if (next == regions_.begin())
		return false;
	auto before = std::prev(next);
	return before->first + before->second.len > base;
}

int pool::enter(void *base, size_t len, bool *out_entered, kv_error *err)
{
	uintptr_t at = (uintptr_t)base;
	kvc_mem *mem = nullptr;
	std::lock_guard<std::mutex> held(lock_);
	auto same = regions_.find(at);
	*out_entered = true;
	if (same != regions_.end() && same->second.len == len) {
		same->second.users++;
		return 0;
	}
	*out_entered = false;
	if (overlaps(at, len)) {
		say(log_level_, LOG_INFO,
		    "memory at %p, %zu bytes, overlaps memory registered before: where only this "
		    "registration covers it, values are copied",
		    base, len);
		return 0;
	}
	int rc = kvc_register(pool_, base, len, &mem, err);
	if (rc == -KV_ELIMIT) {
		say(log_level_, LOG_WARN,
		    "memory at %p, %zu bytes, is not registered, so its values are copied: %s; register "
		    "few large pieces",
		    base, len, err->text);
		return 0;
	}
	if (rc < 0)
		return rc;
	regions_.emplace(at, region{mem, len, 1});
	*out_entered = true;
	return 0;
}

int pool::leave(void *base)
{
	std::lock_guard<std::mutex> held(lock_);
	auto at = regions_.find((uintptr_t)base);
	int rc = 0;
	if (at == regions_.end() || --at->second.users > 0)
		return 0;
	for (uint64_t waited = 0, bound = kvc_call_bound_ns(pool_, 0, at->second.len) / 1000000; waited <= bound;
	     waited++) {
		rc = kvc_unregister(pool_, &at->second.mem);
		if (rc != -KV_EBUSY)
			break;
		usleep(1000);
	}
	if (rc == 0)
		regions_.erase(at);
	else
		at->second.users = 1;
	return rc;
}

std::string pool::why_down() const
{
	struct kvc_info info = {};
	info.size = sizeof(info);
	if (kvc_info(pool_, &info) < 0)
		return "";
	for (unsigned i = 0; i < info.num_servers; i++) {
		struct kvc_server_info server = {};
		server.size = sizeof(server);
		int rc = kvc_server_info_within(pool_, 0, i, 10000000, &server);
		if (rc < 0 && rc != -KV_ENOTFOUND)
			break; /* the loop is busy: it would be so for the next server as well */
		if (rc == 0 && server.why[0])
			return strstr(server.why, server.name) ? server.why
							       : std::string(server.name) + ": " + server.why;
	}
	return "";
}

} // namespace kvrail
