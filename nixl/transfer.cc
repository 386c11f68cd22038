/* SPDX-License-Identifier: Apache-2.0 */
/* transfer.cc -- plan, submit, check.
 *
 * Plan: descriptors that ask for whole values are one batch, others one batch for each range (the range is an option of
 * a call, not of an item). Descriptors of one value that follow each other from offset 0 become one item with spans:
 * only so can a value be written in pieces, because a value never changes.
 *
 * A READ asks for the whole value if its descriptor is as long as the registration. If the value is longer, the range
 * is asked for again; the plan remembers it for the next post.
 *
 * The library ends each id by its deadline. A batch that finds the queue full waits here for the next check, by the
 * same deadline. Completions are taken by whichever thread checks: it touches a transfer of another thread only by
 * pending_. */
#include "nixl/transfer.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <stdexcept>
#include <string_view>
#include <tuple>
#include <utility>

#include <poll.h>

namespace kvrail
{

uint64_t now_ns()
{
	auto now = std::chrono::steady_clock::now().time_since_epoch();
	return (uint64_t)std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
}

uint64_t timeout_of(uint64_t timeout_ns, uint64_t bytes)
{
	const uint64_t second = 1000000000;
	return timeout_ns ? timeout_ns : 5 * second + bytes / 100000000 * second;
}

nixl_status_t status_of(int64_t code)
{
	if (code >= 0)
		return NIXL_SUCCESS;
	switch (-code) {
	case KV_ENOTFOUND:
		return NIXL_ERR_NOT_FOUND;
	case KV_ETOOBIG:
		return NIXL_ERR_MISMATCH;
	case KV_EINVAL:
		return NIXL_ERR_INVALID_PARAM;
	case KV_ECANCELED:
		return NIXL_ERR_CANCELED;
	case KV_EDENIED:
		return NIXL_ERR_NOT_ALLOWED;
	case KV_ENOTSUP:
		return NIXL_ERR_NOT_SUPPORTED;
	default:
		return NIXL_ERR_BACKEND;
	}
}

int channel::reap()
{
	kvc_completion done[64];
	int n = 0;
	do {
		n = kvc_reap(queue, done, 64);
		for (int i = 0; i < n; i++)
			((transfer::batch *)done[i].tag)->owner->pending_.fetch_sub(1, std::memory_order_release);
	} while (n == 64);
	return n == -KV_ECLOSED ? n : 0; /* -KV_EBUSY: another thread is taking them */
}

/* ---- plan ---- */

transfer::transfer(channel *to, nixl_xfer_op_t op, std::vector<part> parts) : to_(to), op_(op), parts_(std::move(parts))
{
	for (const part &p : parts_)
		bytes_ += p.len;
	statuses_.assign(parts_.size(), NIXL_ERR_NOT_POSTED);
	plan();
}

void transfer::plan()
{
	bool pieces = std::any_of(parts_.begin(), parts_.end(), [](const part &p) { return p.offset > 0; });
	std::map<std::string_view, std::vector<unsigned>> values;
	batches_.clear();
	layouts_.clear();
	spans_.clear();
	open_ = 0;
	for (unsigned p = 0; p < parts_.size(); p++) {
		if (pieces)
			values[parts_[p].of->key].push_back(p);
		else
			single_add(p);
	}
	for (auto &[key, group] : values)
		plan_value(group);
	planned_ = open_ = batches_.size();
}

/* The descriptors of one value, some of them behind its beginning. */
void transfer::plan_value(std::vector<unsigned> &group)
{
	uint64_t end = 0;
	std::stable_sort(group.begin(), group.end(),
			 [this](unsigned a, unsigned b) { return parts_[a].offset < parts_[b].offset; });
	for (unsigned p : group) {
		if (parts_[p].offset != end)
			end = UINT64_MAX;
		else
			end += parts_[p].len;
	}
	if (end != UINT64_MAX && group.size() <= KVC_SPANS_MAX) {
		joined_add(group);
		return;
	}
	const part &last = parts_[group.back()];
	if (op_ == NIXL_WRITE && last.offset > 0)
		throw std::invalid_argument(
			"WRITE at offset " + std::to_string(last.offset) + " of value '" + last.of->name +
			"': values are stored as a whole; put all pieces of a value, " + std::to_string(KVC_SPANS_MAX) +
			" at most, into one transfer, from offset 0 and without gaps");
	for (unsigned p : group)
		single_add(p);
}

unsigned transfer::batch_for(uint64_t offset, uint64_t length)
{
	for (size_t i = batches_.size(); i > open_; i--) {
		if (batches_[i - 1].offset == offset && batches_[i - 1].length == length)
			return (unsigned)i - 1;
	}
	batches_.push_back({this, offset, length, {}, 0, 0});
	return (unsigned)batches_.size() - 1;
}

/* The `length` of a call for `len` bytes from first.offset on. 0: the whole value. */
uint64_t transfer::length_for(const part &first, uint64_t len) const
{
	return op_ == NIXL_READ && (first.offset > 0 || first.longer || first.of->len > len) ? len : 0;
}

void transfer::single_add(unsigned p)
{
	part &one = parts_[p];
	kvc_item item = {};
	one.batch = batch_for(one.offset, length_for(one, one.len));
	one.item = (unsigned)batches_[one.batch].items.size();
	item.key = {one.of->key.data(), one.of->key.size()};
	item.data = one.data;
	item.len = one.len;
	batches_[one.batch].items.push_back(item);
}

/* One item for descriptors that follow each other in the value. In memory they may be anywhere. */
void transfer::joined_add(const std::vector<unsigned> &group)
{
	const part &first = parts_[group[0]];
	std::vector<kvc_span> spans;
	bool contiguous = true;
	kvc_item item = {};
	unsigned b = 0;
	for (unsigned p : group) {
		contiguous = contiguous && parts_[p].data == first.data + item.len;
		spans.push_back({parts_[p].data, parts_[p].len, 0, 0});
		item.len += parts_[p].len;
	}
	item.key = {first.of->key.data(), first.of->key.size()};
	if (contiguous) {
		item.data = first.data;
	} else {
		spans_.push_back(std::move(spans));
		layouts_.push_back({});
		layouts_.back().size = sizeof(kvc_layout);
		layouts_.back().spans = spans_.back().data();
		layouts_.back().num_spans = (uint32_t)spans_.back().size();
		item.layout = &layouts_.back();
	}
	b = batch_for(0, length_for(first, item.len));
	for (unsigned p : group) {
		parts_[p].batch = b;
		parts_[p].item = (unsigned)batches_[b].items.size();
	}
	batches_[b].items.push_back(item);
}

/* ---- submit ---- */

nixl_status_t transfer::post()
{
	if (under_way_)
		return NIXL_ERR_REPOST_ACTIVE;
	if (batches_.size() > planned_)
		plan();
	deadline_ns_ = now_ns() + timeout_of(to_->timeout_ns, bytes_);
	under_way_ = true;
	cancelled_ = false;
	for (batch &b : batches_) {
		b.id = b.code = 0;
		submit(&b);
	}
	return NIXL_IN_PROG;
}

void transfer::submit(batch *b)
{
	uint64_t now = now_ns();
	kvc_call call = {};
	int64_t id = -KV_ETIMEOUT;
	call.size = sizeof(call);
	call.timeout_ns = deadline_ns_ - now;
	call.offset = b->offset;
	call.length = b->length;
	if (now < deadline_ns_) {
		pending_.fetch_add(1, std::memory_order_relaxed);
		if (op_ == NIXL_READ) {
			id = kvc_submit_get(to_->queue, b->items.data(), (unsigned)b->items.size(), &call, (uint64_t)b);
		} else {
			call.ttl_s = to_->ttl_s;
			id = kvc_submit_put(to_->queue, b->items.data(), (unsigned)b->items.size(), &call, (uint64_t)b);
		}
		if (id < 0)
			pending_.fetch_sub(1, std::memory_order_relaxed);
	}
	if (id > 0)
		b->id = id;
	else if (id == -KV_EBUSY)
		unsubmitted_++; /* the queue is full */
	else
		b->code = (int)id;
}

void transfer::submit_rest()
{
	unsubmitted_ = 0;
	for (batch &b : batches_) {
		if (b.id == 0 && b.code == 0)
			submit(&b);
	}
}

/* ---- the end ---- */

nixl_status_t transfer::check()
{
	if (!under_way_)
		return ended_;
	if (to_->reap() < 0)
		abandon();
	if (unsubmitted_ > 0)
		submit_rest();
	if (pending_.load(std::memory_order_acquire) > 0 || unsubmitted_ > 0)
		return NIXL_IN_PROG;
	if (op_ == NIXL_READ && !cancelled_)
		longer_again();
	if (pending_.load(std::memory_order_acquire) > 0 || unsubmitted_ > 0)
		return NIXL_IN_PROG;
	settle();
	return ended_;
}

/* In a child of fork(): the transfer is the parent's, as are its memory and its threads. */
void transfer::abandon()
{
	for (batch &b : batches_)
		b.code = -KV_ECLOSED;
	unsubmitted_ = 0;
	pending_.store(0, std::memory_order_relaxed);
}

/* Ask for a range of the values that turned out to be longer than their place. */
void transfer::longer_again()
{
	std::map<std::pair<unsigned, unsigned>, std::pair<unsigned, unsigned>> moved;
	open_ = batches_.size();
	for (part &p : parts_) {
		auto from = std::make_pair(p.batch, p.item);
		const kvc_item item = batches_[p.batch].items[p.item];
		if (batches_[p.batch].length > 0 || batches_[p.batch].code < 0 || item.result != -KV_ETOOBIG)
			continue;
		p.longer = true;
		auto [to, first] = moved.try_emplace(from);
		if (first) {
			unsigned b = batch_for(0, item.len);
			to->second = {b, (unsigned)batches_[b].items.size()};
			batches_[b].items.push_back(item);
		}
		std::tie(p.batch, p.item) = to->second;
	}
	for (size_t i = open_; i < batches_.size(); i++)
		submit(&batches_[i]);
	open_ = batches_.size();
}

int64_t transfer::result(const part &p) const
{
	const batch &b = batches_[p.batch];
	return b.code < 0 ? b.code : b.items[p.item].result;
}

nixl_status_t transfer::status(const part &p) const
{
	const batch &b = batches_[p.batch];
	int64_t r = result(p);
	if (op_ == NIXL_WRITE)
		return r == -KV_EEXIST ? NIXL_SUCCESS : status_of(r); /* other bytes are stored: of the same block */
	if ((r >= 0 && (uint64_t)r != b.items[p.item].len) || (r == -KV_EINVAL && b.offset > 0))
		return NIXL_ERR_MISMATCH; /* the value ends before the descriptor does */
	return status_of(r);
}

void transfer::settle()
{
	ended_ = NIXL_SUCCESS;
	for (size_t i = 0; i < parts_.size(); i++) {
		nixl_status_t one = status(parts_[i]);
		statuses_[i] = one;
		if (one != NIXL_SUCCESS && (ended_ == NIXL_SUCCESS || ended_ == NIXL_ERR_NOT_FOUND))
			ended_ = one;
	}
	under_way_ = false;
}

bool transfer::cancel(uint64_t bound_ns)
{
	uint64_t until = now_ns() + bound_ns;
	cancelled_ = true;
	for (batch &b : batches_) {
		if (b.id == 0 && b.code == 0)
			b.code = -KV_ECANCELED;
	}
	unsubmitted_ = 0;
	while (check() == NIXL_IN_PROG && under_way_) {
		struct pollfd completions = {kvc_queue_fd(to_->queue), POLLIN, 0};
		for (batch &b : batches_) {
			if (b.id > 0)
				kvc_cancel(to_->queue, b.id); /* a full queue of a loop: again in the next turn */
		}
		if (now_ns() > until)
			return false;
		poll(&completions, 1, 2);
	}
	return true;
}

std::string transfer::failure(int64_t *out_code) const
{
	const char *op = op_ == NIXL_READ ? "READ" : "WRITE";
	size_t failed = 0, first = 0;
	for (size_t i = statuses_.size(); i > 0; i--) {
		failed += statuses_[i - 1] != NIXL_SUCCESS;
		first = statuses_[i - 1] != NIXL_SUCCESS ? i - 1 : first;
	}
	*out_code = failed ? result(parts_[first]) : 0;
	if (!failed)
		return "";
	const part &p = parts_[first];
	std::string text = std::string(op) + " of " + std::to_string(parts_.size()) +
			   " descriptors: " + std::to_string(failed) + " failed; the first is descriptor " +
			   std::to_string(first) + ", " + std::to_string(p.len) + " bytes at offset " +
			   std::to_string(p.offset) + " of value '" + p.of->name.substr(0, 200) + "': ";
	if (statuses_[first] == NIXL_ERR_MISMATCH && op_ == NIXL_READ)
		return text + "the value is shorter; was it stored with another layout?";
	return text + kvc_errname((int)*out_code) + ", " + kvc_strerror((int)*out_code);
}

} // namespace kvrail
