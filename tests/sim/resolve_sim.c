/* SPDX-License-Identifier: Apache-2.0 */
/* resolve_sim.c -- see resolve_sim.h. */
#include "tests/sim/resolve_sim.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#include "bootstrap/bootstrap.h"

static struct {
	char host[64];
	uint16_t port[SIM_NAME_ADDRESSES];
	uint64_t delay_ns;
} names[SIM_NAMES];

static unsigned num_names;

/* When a question that is out will be answered; 0: none is. */
struct boot_resolver {
	unsigned count;
	uint64_t answer_ns[];
};

void sim_name_set(const char *host, const uint16_t port[SIM_NAME_ADDRESSES], uint64_t delay_ns)
{
	unsigned i = 0;
	while (i < num_names && strcmp(names[i].host, host) != 0)
		i++;
	if (i == SIM_NAMES)
		abort();
	num_names = KV_MAX(num_names, i + 1);
	snprintf(names[i].host, sizeof(names[i].host), "%s", host);
	memcpy(names[i].port, port, sizeof(names[i].port));
	names[i].delay_ns = delay_ns;
}

void sim_names_forget(void)
{
	memset(names, 0, sizeof(names));
	num_names = 0;
}

int boot_resolver_create(unsigned n, struct boot_resolver **out)
{
	*out = calloc(1, sizeof(**out) + n * sizeof((*out)->answer_ns[0]));
	if (!*out)
		return -KV_ENOMEM;
	(*out)->count = n;
	return 0;
}

void boot_resolver_destroy(struct boot_resolver **resolver)
{
	free(*resolver);
	*resolver = NULL;
}

static void address_fill(struct kv_addresses *out, uint16_t port)
{
	const struct sockaddr_in in = {
		.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	memset(&out->addr[out->count], 0, sizeof(out->addr[0]));
	memcpy(&out->addr[out->count], &in, sizeof(in));
	out->len[out->count++] = sizeof(in);
}

int boot_resolve(struct boot_resolver *r, unsigned i, const struct kv_hostport *hp, struct kv_addresses *out,
		 struct kv_error *err)
{
	uint64_t now = loop_current() ? loop_now(loop_current()) : 0;
	unsigned k = 0;
	if (kv_hostport_numeric(hp, out))
		return 0;
	while (k < num_names && strcmp(names[k].host, hp->host) != 0)
		k++;
	/* Outside of the world no time goes by. */
	if (k < num_names && names[k].delay_ns) {
		if (now == 0)
			return 1;
		if (r->answer_ns[i] == 0)
			r->answer_ns[i] = kv_deadline(now, names[k].delay_ns);
		if (now < r->answer_ns[i])
			return 1;
		r->answer_ns[i] = 0;
	}
	out->count = 0;
	for (unsigned a = 0; k < num_names && a < SIM_NAME_ADDRESSES; a++)
		if (names[k].port[a])
			address_fill(out, names[k].port[a]);
	return out->count ? 0
			  : kv_fail(err, -KV_EPEERDOWN,
				    "cannot resolve host '%s': the simulated world has no such name", hp->host);
}
