/* SPDX-License-Identifier: Apache-2.0 */
/* events.c -- kv-client events: a line for each event of the servers, for people or as JSON. */
#include "kvcli/events.h"

#include <inttypes.h>
#include <jansson.h>
#include <poll.h>
#include <stdlib.h>

#include "kvcli/interrupt.h"
#include "kvcli/look.h"

enum { BATCH = 256, SINCE_TRIES = 20 };

#define NEXT_NS 200000000ull /* between looks at an interrupt */

static const char *const type_names[] = {
	[KVC_EVENT_STORED] = "stored", [KVC_EVENT_REMOVED] = "removed", [KVC_EVENT_CLEARED] = "cleared",
	[KVC_EVENT_GAP] = "gap",       [KVC_EVENT_SYNCED] = "synced",   [KVC_EVENT_AWAY] = "away",
};
static const char *const tier_names[] = {[KVC_TIER_MEMORY] = "memory", [KVC_TIER_DISK] = "disk"};

bool events_since_parse(char *text, struct kvc_position *out)
{
	char *epoch = strrchr(text, '='), *colon = epoch ? strchr(epoch, ':') : NULL, *end = NULL;
	if (!epoch || epoch == text || !colon || colon - epoch < 2 || epoch[1] == '-' || colon[1] < '0' ||
	    colon[1] > '9')
		return false;
	out->node = text;
	out->epoch = strtoull(epoch + 1, &end, 16);
	if (end != colon)
		return false;
	out->sequence = strtoull(colon + 1, &end, 10);
	if (*end || out->sequence == UINT64_MAX)
		return false;
	*epoch = '\0';
	return true;
}

static int key_add(json_t *o, const struct kvc_event *e)
{
	char hex[2 * KV_KEY_MAX + 1];
	json_t *text = json_stringn(e->key.data, e->key.len);
	if (text)
		return json_object_set_new(o, "key", text);
	for (size_t i = 0; i < e->key.len; i++)
		snprintf(hex + 2 * i, 3, "%02x", ((const uint8_t *)e->key.data)[i]);
	return json_object_set_new(o, "key_hex", json_string(hex));
}

static void json_print(const struct kvc_event *e)
{
	char epoch[17];
	json_t *o;
	snprintf(epoch, sizeof(epoch), "%016" PRIx64, e->epoch);
	o = json_pack("{s:s, s:s, s:I, s:s}", "node", e->node, "epoch", epoch, "sequence", (json_int_t)e->sequence,
		      "type", type_names[e->type]);
	if (e->key.len > 0) {
		json_object_set_new(o, "tier", json_string(tier_names[e->tier]));
		json_object_set_new(o, "bytes", json_integer((json_int_t)e->bytes));
		key_add(o, e);
	}
	if (e->key.len > 0 || e->name_space[0])
		json_object_set_new(o, "namespace", json_string(e->name_space));
	json_dumpf(o, stdout, JSON_COMPACT);
	json_decref(o);
	putchar('\n');
}

static void text_print(const struct kvc_event *e)
{
	printf("%s %016" PRIx64 ":%" PRIu64 " %s", e->node, e->epoch, e->sequence, type_names[e->type]);
	if (e->key.len > 0) {
		printf(" %s %" PRIu64 " ", tier_names[e->tier], e->bytes);
		kv_utf8_print(stdout, e->key.data, e->key.len, false);
	}
	if (e->name_space[0])
		printf(" namespace %s", e->name_space);
	putchar('\n');
}

static unsigned servers_up(struct cli *cli)
{
	struct kvc_server_info s;
	unsigned up = 0;
	for (unsigned at = 0; look_next(cli, &at, &s);)
		up += s.state == KVC_SERVER_UP;
	return up;
}

static int mute_fail(const struct kvc_event *e, struct kv_error *err)
{
	return kv_fail(err, -KV_ENOTSUP, "events: server %.100s reports none: start it with --events on", e->node);
}

static int follow(struct cli *cli, struct kvc_events *events, struct kv_error *err)
{
	struct kvc_event batch[BATCH];
	unsigned synced = 0;
	while (!interrupted() && !ferror(stdout)) {
		int n = kvc_events_next(events, batch, BATCH, NEXT_NS);
		if (n < 0)
			return kv_fail(err, n, "events: %s", kv_strerror(n));
		for (int i = 0; i < n; i++) {
			if (batch[i].type == KVC_EVENT_GAP && batch[i].sequence == 0)
				return mute_fail(&batch[i], err);
			synced += batch[i].type == KVC_EVENT_SYNCED;
			if (cli->opt->json)
				json_print(&batch[i]);
			else
				text_print(&batch[i]);
		}
		if (n > 0)
			fflush(stdout);
		if (cli->opt->once && synced > 0 && synced >= servers_up(cli))
			return 0;
	}
	return 0;
}

/* The node that a server's events name. */
static const char *node_of(const struct kvc_server_info *s)
{
	return s->node_id[0] ? s->node_id : s->member[0] ? s->member : s->name;
}

/* Whether a server has this name. *out_all: all names, for a sentence; "": a server was never reached, and may have
 * it. */
static bool node_there(struct cli *cli, const char *node, char *out_all, size_t cap)
{
	struct kvc_server_info s;
	bool there = false, all = true;
	size_t len = 0;
	out_all[0] = '\0';
	for (unsigned at = 0; look_next(cli, &at, &s); len = strlen(out_all)) {
		there |= strcmp(node, node_of(&s)) == 0;
		all &= s.node_id[0] || s.member[0] || s.state == KVC_SERVER_UP;
		snprintf(out_all + len, cap - len, "%s%.100s", len ? ", " : "", node_of(&s));
	}
	if (!all)
		out_all[0] = '\0';
	return there;
}

/* Each position is of another server that exists. A view may still be on its way, and bring further servers. */
static int since_check(struct cli *cli, const struct kvc_position *of, unsigned n, struct kv_error *err)
{
	char nodes[320];
	for (unsigned k = 0; k < n; k++) {
		for (unsigned i = 0; i < k; i++)
			if (strcmp(of[i].node, of[k].node) == 0)
				return kv_fail(err, -KV_EINVAL,
					       "--since names %.100s twice: give each server one position", of[k].node);
		for (unsigned tries = 0; !node_there(cli, of[k].node, nodes, sizeof(nodes)) && nodes[0]; tries++) {
			if (tries == SINCE_TRIES)
				return kv_fail(err, -KV_EINVAL,
					       "--since: no server is named %.100s; the servers are %s", of[k].node,
					       nodes);
			poll(NULL, 0, 100);
		}
	}
	return 0;
}

int events_run(struct cli *cli, const struct cli_line *line, struct kv_error *err)
{
	const struct kv_opt_strings *since = &cli->opt->since;
	struct kvc_position position[KV_OPT_STRINGS_MAX];
	struct kvc_events_options o = {.size = sizeof(o),
				       .flags = cli->opt->fresh ? KVC_EVENTS_NEW : 0,
				       .since = position,
				       .num_since = since->count};
	struct kvc_events *events;
	int rc;
	(void)line;
	for (unsigned i = 0; i < since->count; i++)
		if (!events_since_parse((char *)since->item[i], &position[i])) {
			kv_fail(err, -KV_EINVAL,
				"--since %.100s: give NODE=EPOCH:SEQUENCE as events show them, EPOCH in hexadecimal",
				since->item[i]);
			return CLI_USAGE;
		}
	if (since_check(cli, position, since->count, err) < 0)
		return CLI_USAGE;
	rc = kvc_events_open(cli->pool, &o, &events, err);
	if (rc < 0)
		return CLI_FAILED;
	interrupt_catch(!cli->interactive);
	rc = follow(cli, events, err);
	interrupt_release(cli->interactive, false);
	(void)kvc_events_close(&events);
	return rc < 0 ? CLI_FAILED : CLI_OK;
}
