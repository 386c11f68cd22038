/* SPDX-License-Identifier: Apache-2.0 */
/* same.c -- whether two messages have the same values. */
#include "samples.h"

/* A field of what was got is that of what was wanted. */
#define SAME(field)       assert_int_equal(got->field, want->field)
#define SAME_TEXT(field)  assert_string_equal(got->field, want->field)
#define SAME_ARRAY(field) assert_memory_equal(got->field, want->field, sizeof(want->field))

static void assert_bytes(struct wire_bytes got, struct wire_bytes want)
{
	assert_int_equal(got.len, want.len);
	if (want.len)
		assert_memory_equal(got.data, want.data, want.len);
}

void assert_request(const struct wire_request *got, const struct wire_request *want)
{
	SAME(type);
	SAME(flags);
	SAME(time_left_us);
	SAME(id);
	assert_bytes(got->key, want->key);
	assert_memory_equal(&got->dest, &want->dest, sizeof(want->dest));
	switch (want->type) {
	case WIRE_GET:
		SAME(get.offset);
		SAME(get.length);
		SAME(get.generation);
		SAME(get.imm);
		break;
	case WIRE_PUT:
		SAME(put.total);
		SAME(put.offset);
		SAME(put.length);
		SAME(put.checksum);
		SAME(put.stage);
		SAME(put.born_ns);
		SAME(put.space);
		SAME(put.ttl_s);
		assert_bytes(got->put.inline_data, want->put.inline_data);
		break;
	case WIRE_EXISTS:
		SAME(exists.count);
		assert_memory_equal(got->exists.digests, want->exists.digests, want->exists.count * 8);
		break;
	case WIRE_DELETE:
		SAME(drop.which);
		break;
	case WIRE_TOUCH:
		SAME(touch.ttl_s);
		SAME(touch.young_ns);
		break;
	case WIRE_CANCEL:
		SAME(cancel.id);
		break;
	case WIRE_PING:
		SAME(ping.cookie);
		break;
	case WIRE_TOMBS:
	case WIRE_SPACES:
	case WIRE_TENANTS:
	case WIRE_LEASES:
		SAME(tombs.from);
		break;
	case WIRE_SESSION:
		SAME(session.number);
		break;
	case WIRE_RELEASE:
		SAME(release.count);
		for (uint32_t i = 0; i < want->release.count; i++)
			assert_int_equal(wire_release_lease(got->release.leases, i),
					 wire_release_lease(want->release.leases, i));
		break;
	case WIRE_PROVE:
		SAME(prove.nonce);
		break;
	case WIRE_CLEAR:
		SAME(clear.generation);
		break;
	default:
		break;
	}
}

void assert_reply(const struct wire_reply *got, const struct wire_reply *want)
{
	SAME(type);
	SAME(flags);
	SAME(status);
	SAME(id);
	SAME(posted_ns);
	SAME(replied_ns);
	switch (want->type) {
	case WIRE_GET:
		SAME(get.value_len);
		SAME(get.generation);
		SAME(get.checksum);
		SAME(get.posted);
		SAME(get.before);
		assert_bytes(got->get.inline_data, want->get.inline_data);
		SAME(get.lease);
		SAME(get.at);
		SAME(get.lease_us);
		break;
	case WIRE_PUT:
		SAME(put.stage);
		SAME(put.generation);
		break;
	case WIRE_EXISTS:
		SAME(exists.count);
		SAME(exists.prefix);
		if (want->exists.count)
			assert_memory_equal(got->exists.bitmap, want->exists.bitmap, (want->exists.count + 7) / 8);
		if (want->exists.count && want->flags & WIRE_EXISTS_DELETED)
			assert_memory_equal(got->exists.deleted, want->exists.deleted, (want->exists.count + 7) / 8);
		if (want->exists.count && want->flags & WIRE_EXISTS_TIER)
			assert_memory_equal(got->exists.tier, want->exists.tier, (want->exists.count + 7) / 8);
		break;
	case WIRE_STAT:
		SAME(stat.count);
		for (uint32_t i = 0; i < want->stat.count; i++) {
			uint32_t id[2];
			uint64_t value[2];
			wire_stat_pair(got->stat.pairs, i, &id[0], &value[0]);
			wire_stat_pair(want->stat.pairs, i, &id[1], &value[1]);
			assert_int_equal(id[0], id[1]);
			assert_int_equal(value[0], value[1]);
		}
		break;
	case WIRE_CANCEL:
		SAME(cancel.id);
		SAME(cancel.posted);
		SAME(cancel.state);
		break;
	case WIRE_TOUCH:
		SAME(touch.left_ms);
		SAME(touch.age_ns);
		SAME(touch.checksum);
		SAME(touch.clock_ns);
		break;
	case WIRE_DELETE:
		SAME(drop.clock_ns);
		break;
	case WIRE_PING:
		SAME(ping.cookie);
		SAME(ping.turns);
		SAME(ping.nonce);
		break;
	case WIRE_TOMBS:
		SAME(tombs.next);
		SAME(tombs.count);
		SAME(tombs.known_ms);
		for (uint32_t i = 0; i < want->tombs.count; i++) {
			uint64_t id[2], age[2];
			bool touched[2];
			wire_tomb(got->tombs.tombs, i, &id[0], &age[0], &touched[0]);
			wire_tomb(want->tombs.tombs, i, &id[1], &age[1], &touched[1]);
			assert_int_equal(id[0], id[1]);
			assert_int_equal(age[0], age[1]);
			assert_int_equal(touched[0], touched[1]);
		}
		break;
	case WIRE_CLEAR:
		SAME(clear.generation);
		break;
	case WIRE_SPACES:
		SAME(rows.floor);
		/* fall through */
	case WIRE_TENANTS:
	case WIRE_LEASES:
		SAME(rows.next);
		SAME(rows.count);
		for (uint32_t i = 0; i < want->rows.count; i++) {
			struct wire_row row[2];
			memset(row, 0, sizeof(row));
			wire_row(got->rows.at, i, want->type, &row[0]);
			wire_row(want->rows.at, i, want->type, &row[1]);
			assert_memory_equal(&row[0], &row[1], sizeof(row[0]));
		}
		break;
	default:
		break;
	}
}

static void assert_addrs(const struct wire_blob_addr *got, const struct wire_blob_addr *want, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		assert_int_equal(got[i].len, want[i].len);
		assert_memory_equal(got[i].data, want[i].data, want[i].len);
	}
}

static void assert_hello(const struct wire_hello *got, const struct wire_hello *want)
{
	SAME(version_min);
	SAME(version_max);
	SAME(loops);
	SAME(rails);
	SAME(eager_bytes);
	SAME(chunk_bytes);
	SAME(incarnation);
	SAME(client_id);
	SAME(mark);
	SAME_ARRAY(host_id);
	SAME(prior.session);
	SAME_ARRAY(prior.token);
	SAME_TEXT(provider);
	SAME_TEXT(fabric);
	SAME_TEXT(cluster);
	SAME_TEXT(space);
	SAME(generation);
	assert_addrs(got->addr, want->addr, want->rails);
}

static void assert_welcome(const struct wire_welcome_msg *got, const struct wire_welcome_msg *want)
{
	SAME(version);
	SAME(shards);
	SAME(rails);
	SAME(flags);
	SAME(loops);
	SAME(session);
	SAME(chunk_bytes);
	SAME(credits);
	SAME(heartbeat_ms);
	SAME(eager_bytes);
	SAME_ARRAY(token);
	SAME(incarnation);
	SAME(shard_seed);
	SAME(value_max);
	SAME(clock_ns);
	SAME(generation);
	SAME(cleared_ns);
	SAME_ARRAY(host_id);
	SAME_TEXT(node_id);
	SAME_TEXT(cluster);
	SAME(addrs_len);
	assert_memory_equal(got->addrs, want->addrs, want->addrs_len);
}

static void assert_region(const struct wire_region *got, const struct wire_region *want)
{
	SAME(id);
	SAME(parts);
	SAME(rails);
	SAME(virt);
	SAME(write_emulated);
	SAME(read_emulated);
	SAME(len_bytes);
	SAME(part_bytes);
	assert_memory_equal(got->keys, want->keys, (size_t)want->rails * want->parts * 16);
}

void assert_ctrl(const struct wire_ctrl_msg *got, const struct wire_ctrl_msg *want)
{
	SAME(type);
	switch (want->type) {
	case WIRE_CTRL_HELLO:
		assert_hello(&got->hello, &want->hello);
		break;
	case WIRE_CTRL_WELCOME:
		assert_welcome(&got->welcome, &want->welcome);
		break;
	case WIRE_CTRL_REFUSE:
		SAME(refuse.status);
		SAME_TEXT(refuse.text);
		break;
	case WIRE_CTRL_REGION:
	case WIRE_CTRL_ARENA:
	case WIRE_CTRL_LANDING:
		assert_region(&got->region, &want->region);
		break;
	case WIRE_CTRL_REGION_OK:
	case WIRE_CTRL_REVOKE:
	case WIRE_CTRL_REVOKE_OK:
	case WIRE_CTRL_ADDRESS_OK:
		SAME(region_ok.id);
		SAME(region_ok.status);
		break;
	case WIRE_CTRL_ADDRESS:
		SAME(address.rails);
		SAME(address.epoch);
		assert_addrs(got->address.addr, want->address.addr, want->address.rails);
		break;
	case WIRE_CTRL_HEARTBEAT:
		SAME(heartbeat.sequence);
		SAME(heartbeat.quiet_ms);
		SAME(heartbeat.clock_ns);
		SAME(heartbeat.shards);
		assert_memory_equal(got->heartbeat.turns, want->heartbeat.turns,
				    want->heartbeat.shards * sizeof(uint64_t));
		break;
	case WIRE_CTRL_VIEW_ASK:
		SAME(view_news.digest);
		break;
	case WIRE_CTRL_DRAIN:
	case WIRE_CTRL_DRAIN_OK:
		SAME(drain.time_ms);
		SAME(drain.bytes_s);
		break;
	case WIRE_CTRL_DRAIN_DONE:
		SAME(drained.values);
		SAME(drained.bytes);
		SAME(drained.of);
		SAME(drained.gone);
		assert_memory_equal(got->drained.left, want->drained.left, sizeof(want->drained.left));
		break;
	case WIRE_CTRL_LOCAL_ASK:
		SAME_ARRAY(local.boot_id);
		break;
	case WIRE_CTRL_LOCAL:
		SAME(local.status);
		SAME_ARRAY(local.nonce);
		SAME_ARRAY(local.proof);
		assert_string_equal(got->local.name, want->local.name);
		assert_string_equal(got->local.text, want->local.text);
		break;
	case WIRE_CTRL_EVENTS_ASK:
	case WIRE_CTRL_EVENTS:
		SAME(events.epoch);
		SAME(events.first);
		SAME(events.next);
		SAME(events.flags);
		SAME(events.shard);
		SAME(events.at);
		SAME(events.count);
		SAME(events.events_len);
		assert_memory_equal(got->events.events, want->events.events, want->events.events_len);
		break;
	case WIRE_CTRL_VIEW_NEWS:
		SAME(view_news.source);
		SAME(view_news.epoch);
		SAME(view_news.digest);
		SAME(view_news.draining);
		break;
	case WIRE_CTRL_VIEW:
		SAME(view.source);
		SAME(view.draining);
		SAME(view.epoch);
		SAME(view.count);
		SAME(view.members_len);
		assert_memory_equal(got->view.members, want->view.members, want->view.members_len);
		break;
	case WIRE_CTRL_SESSION_CHALLENGE:
		SAME_ARRAY(session_challenge.nonce);
		break;
	case WIRE_CTRL_SESSION_OPEN:
		SAME(session_open.id);
		SAME(session_open.client_id);
		SAME_ARRAY(session_open.nonce);
		SAME_ARRAY(session_open.proof);
		SAME_TEXT(session_open.identity);
		SAME_TEXT(session_open.space);
		SAME(session_open.generation);
		break;
	case WIRE_CTRL_SESSION_OK:
		SAME(session_ok.id);
		SAME(session_ok.session);
		SAME(session_ok.credits);
		break;
	case WIRE_CTRL_SESSION_REFUSE:
		SAME(session_refuse.id);
		SAME(session_refuse.status);
		SAME_TEXT(session_refuse.text);
		break;
	case WIRE_CTRL_SESSION_CLOSE:
	case WIRE_CTRL_SESSION_CLOSE_OK:
		SAME(session_close.session);
		SAME(session_close.requests);
		break;
	default:
		break;
	}
}
