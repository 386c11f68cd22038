/* SPDX-License-Identifier: Apache-2.0 */
/* engine.cc -- DRAM_SEG is registered with the pool, OBJ_SEG is a key and needs no server. The agent talks to itself:
 * this is a storage, so the "remote" side of a transfer is a list of values.
 *
 * Release of a transfer under way waits until the library no longer touches the caller's memory: a grace of 200 ms and
 * rarely a fence. If that cannot be had in time, the transfer stays, and release fails. */
#include "nixl/engine.h"

#include <exception>
#include <stdexcept>
#include <utility>

#include <poll.h>

#include "nixl/log.h"

namespace kvrail
{
namespace
{

struct memory_md : nixlBackendMD {
	explicit memory_md(void *at) : nixlBackendMD(true), base(at)
	{
	}
	void *base;
	bool entered = false; /* in the pool: it must leave */
};

struct object_md : nixlBackendMD {
	explicit object_md(object made) : nixlBackendMD(true), of(std::make_shared<const object>(std::move(made)))
	{
	}
	std::shared_ptr<const object> of;
};

thread_local std::vector<int> statuses;

/* NIXL's callers poll. A thread that does nothing but check one transfer would take a processor from the threads that
 * move its bytes. So after 50 us of such checks they sleep, until something has ended, by 200 us at most. A thread that
 * checks now and then, or several transfers in turn, never sleeps. */
enum { SPIN_NS = 50000, BETWEEN_NS = 20000, SLEEP_NS = 200000 };

thread_local struct {
	const void *of;
	uint64_t since_ns, last_ns;
} spin;

/* `of` is not done. Whether this thread spins on it. */
bool spins(const void *of)
{
	uint64_t now = now_ns();
	if (spin.of != of || now - spin.last_ns > BETWEEN_NS)
		spin = {of, now, now};
	spin.last_ns = now;
	return now - spin.since_ns > SPIN_NS;
}

void sleep_until_readable(int fd)
{
	struct pollfd one = {fd, POLLIN, 0};
	struct timespec most = {0, SLEEP_NS};
	ppoll(&one, 1, &most, nullptr);
	spin.last_ns = now_ns();
}

} // namespace

const std::vector<int> &last_statuses()
{
	return statuses;
}

engine::engine(const nixlBackendInitParams *params) : nixlBackendEngine(params)
{
	kv_error err = {};
	int rc;
	settings_read(getType(), *params->customParams, &settings_);
	pool_ = pool::of(settings_);
	rc = kvc_queue_open(pool_->get(), &settings_.queue, &channel_.queue, &err);
	if (rc < 0)
		throw std::runtime_error(err.text[0] ? err.text : kvc_strerror(rc));
	channel_.timeout_ns = settings_.timeout_ns;
	channel_.ttl_s = settings_.ttl_s;
}

engine::~engine()
{
	kvc_queue_close(&channel_.queue);
}

nixl_mem_list_t engine::getSupportedMems() const
{
	return {DRAM_SEG, OBJ_SEG};
}

/* ---- failures ---- */

nixl_status_t engine::refuse(nixl_status_t status, const std::string &text) const
{
	say(settings_.options.log_level, LOG_ERROR, "%s", text.c_str());
	return status;
}

template <class F> nixl_status_t engine::guarded(F body) const
{
	try {
		return body();
	} catch (const std::invalid_argument &e) {
		return refuse(NIXL_ERR_INVALID_PARAM, e.what());
	} catch (const std::exception &e) {
		return refuse(NIXL_ERR_BACKEND, std::string("no memory, or a fault of the plug-in: ") + e.what());
	}
}

/* What to do about a code, as the end of a line. */
std::string engine::remedy(int64_t code) const
{
	std::string why;
	switch (-code) {
	case KV_ENOTFOUND:
		return "; compute the value and WRITE it, or ask with queryMem first";
	case KV_ETIMEOUT:
		return "; raise the parameter timeout if the servers are only slow";
	case KV_ENOMEM:
		return "; the server has no room: give kv-server more --memory-mb";
	case KV_ETOOBIG:
		return "; write smaller values, or raise kv-server --value-max";
	case KV_EPEERDOWN:
	case KV_EDENIED:
	case KV_EVERSION:
	case KV_EPROTO:
		why = pool_->why_down();
		return why.empty() ? "; is kv-server running at the addresses of the parameter servers?" : "; " + why;
	default:
		return "";
	}
}

/* A transfer has ended. */
nixl_status_t engine::ended(transfer *t, nixl_status_t status) const
{
	int64_t code = 0;
	statuses = t->statuses();
	spin.of = nullptr; /* another transfer may get the same address */
	if (status == NIXL_SUCCESS || status == NIXL_ERR_CANCELED)
		return status;
	std::string text = t->failure(&code);
	if (settings_.options.log_level >= LOG_WARN)
		say(settings_.options.log_level, LOG_WARN, "%s%s", text.c_str(), remedy(code).c_str());
	return status;
}

/* ---- memory and values ---- */

object engine::object_of(const nixlBlobDesc &desc) const
{
	std::string name = desc.metaInfo.empty() ? std::to_string(desc.devId) : desc.metaInfo;
	std::string whole = settings_.prefix + name;
	unsigned char room[KVC_KEY_MAX];
	kvc_key key = {};
	int rc = kvc_key_fold(whole.data(), whole.size(), room, &key);
	if (rc < 0)
		throw std::runtime_error(kvc_strerror(rc));
	return {std::string((const char *)key.data, key.len), name, desc.len};
}

nixl_status_t engine::memory_register(const nixlBlobDesc &mem, nixlBackendMD *&out)
{
	kv_error err = {};
	if (mem.len == 0 || mem.addr == 0)
		return refuse(NIXL_ERR_INVALID_PARAM, "DRAM memory to be registered has no address or no length");
	auto md = std::make_unique<memory_md>((void *)mem.addr);
	int rc = pool_->enter(md->base, mem.len, &md->entered, &err);
	if (rc < 0)
		return refuse(status_of(rc), std::string("DRAM memory cannot be registered: ") +
						     (err.text[0] ? err.text : kvc_strerror(rc)));
	out = md.release();
	return NIXL_SUCCESS;
}

nixl_status_t engine::registerMem(const nixlBlobDesc &mem, const nixl_mem_t &type, nixlBackendMD *&out)
{
	return guarded([&] {
		if (type == OBJ_SEG) {
			out = new object_md(object_of(mem));
			return NIXL_SUCCESS;
		}
		if (type == DRAM_SEG)
			return memory_register(mem, out);
		return refuse(NIXL_ERR_NOT_SUPPORTED,
			      "only DRAM and OBJ can be registered: copy values of a GPU to host "
			      "memory first");
	});
}

nixl_status_t engine::deregisterMem(nixlBackendMD *meta)
{
	auto *memory = dynamic_cast<memory_md *>(meta);
	int rc = memory && memory->entered ? pool_->leave(memory->base) : 0;
	delete meta;
	if (rc < 0)
		return refuse(NIXL_ERR_BACKEND,
			      std::string("DRAM memory is still in use, and stays registered: keep it mapped "
					  "(") +
				      kvc_strerror(rc) + ")");
	return NIXL_SUCCESS;
}

nixl_status_t engine::queryMem(const nixl_reg_dlist_t &descs, std::vector<nixl_query_resp_t> &resp) const
{
	return guarded([&] {
		size_t n = (size_t)descs.descCount();
		std::vector<object> objects;
		std::vector<kvc_key> keys;
		std::vector<uint8_t> found(n);
		kvc_call call = {};
		if (descs.getType() != OBJ_SEG)
			return refuse(NIXL_ERR_NOT_SUPPORTED, "queryMem answers for OBJ only");
		resp.assign(n, std::nullopt);
		objects.reserve(n);
		for (size_t i = 0; i < n; i++) {
			objects.push_back(object_of(descs[i]));
			keys.push_back({objects[i].key.data(), objects[i].key.size()});
		}
		call.size = sizeof(call);
		call.timeout_ns = timeout_of(channel_.timeout_ns, 0);
		int rc = n ? kvc_exists(pool_->get(), keys.data(), (unsigned)n, found.data(), nullptr, &call) : 0;
		if (rc < 0)
			return refuse(status_of(rc), "queryMem of " + std::to_string(n) + " values: " +
							     kvc_errname(rc) + ", " + kvc_strerror(rc) + remedy(rc));
		for (size_t i = 0; i < n; i++) {
			if (found[i])
				resp[i].emplace();
		}
		return NIXL_SUCCESS;
	});
}

/* ---- transfers ---- */

nixl_status_t engine::prepXfer(const nixl_xfer_op_t &op, const nixl_meta_dlist_t &local,
			       const nixl_meta_dlist_t &remote, const std::string &, nixlBackendReqH *&handle,
			       const nixl_opt_b_args_t *) const
{
	return guarded([&] {
		std::vector<transfer::part> parts;
		int n = local.descCount();
		if (local.getType() != DRAM_SEG || remote.getType() != OBJ_SEG)
			return refuse(NIXL_ERR_NOT_SUPPORTED, "transfers are between DRAM here and OBJ there");
		if (n == 0 || n != remote.descCount())
			throw std::invalid_argument(
				"a transfer needs as many DRAM descriptors as OBJ descriptors, and one at "
				"least");
		parts.reserve((size_t)n);
		for (size_t i = 0; i < (size_t)n; i++) {
			auto *md = dynamic_cast<const object_md *>(remote[i].metadataP);
			if (!md || local[i].len == 0 || local[i].len != remote[i].len)
				throw std::invalid_argument(
					"descriptor " + std::to_string(i) +
					": the OBJ side is not registered, or the lengths differ or are 0");
			parts.push_back({md->of, (char *)local[i].addr, remote[i].addr, local[i].len, false, 0, 0});
		}
		handle = new transfer(&channel_, op, std::move(parts));
		return NIXL_SUCCESS;
	});
}

nixl_status_t engine::postXfer(const nixl_xfer_op_t &, const nixl_meta_dlist_t &, const nixl_meta_dlist_t &,
			       const std::string &, nixlBackendReqH *&handle, const nixl_opt_b_args_t *) const
{
	return guarded([&] {
		auto *t = static_cast<transfer *>(handle);
		if (!t)
			throw std::invalid_argument("postXfer without prepXfer");
		std::lock_guard<std::mutex> held(t->lock);
		if (t->under_way())
			return refuse(NIXL_ERR_REPOST_ACTIVE, "the transfer is under way: check it until it has ended");
		return t->post();
	});
}

nixl_status_t engine::checkXfer(nixlBackendReqH *handle) const
{
	return guarded([&] {
		auto *t = static_cast<transfer *>(handle);
		if (!t)
			throw std::invalid_argument("checkXfer without a transfer");
		std::unique_lock<std::mutex> held(t->lock);
		if (!t->under_way())
			return t->check();
		nixl_status_t status = t->check();
		if (status == NIXL_IN_PROG && spins(t)) {
			held.unlock();
			sleep_until_readable(kvc_queue_fd(channel_.queue));
			held.lock();
			status = t->check();
		}
		return status == NIXL_IN_PROG ? status : ended(t, status);
	});
}

nixl_status_t engine::releaseReqH(nixlBackendReqH *handle) const
{
	return guarded([&] {
		auto *t = static_cast<transfer *>(handle);
		if (!t)
			return NIXL_SUCCESS;
		std::unique_lock<std::mutex> held(t->lock);
		if (t->under_way() && !t->cancel(kvc_call_bound_ns(pool_->get(), 1, 0)))
			return refuse(NIXL_ERR_REPOST_ACTIVE,
				      "the transfer cannot be released yet, because a server may still use "
				      "its memory: keep the memory, and release again");
		held.unlock();
		delete t;
		return NIXL_SUCCESS;
	});
}

} // namespace kvrail
