/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/kvdoctor/rig.h"

#include <stdlib.h>

static struct doctor_options options;

static void budget_make(struct te_budget *b, unsigned endpoints)
{
	b->num_devices = 1;
	b->rails = 1;
	snprintf(b->why, sizeof(b->why), "tcp (tcp;ofi_rxm): auto, no efa, no verbs");
	struct te_device *t = &b->device[0].device;
	snprintf(t->provider, sizeof(t->provider), "tcp;ofi_rxm");
	snprintf(t->short_name, sizeof(t->short_name), "tcp");
	snprintf(t->fabric, sizeof(t->fabric), "127.0.0.1/32");
	snprintf(t->domain, sizeof(t->domain), "lo");
	snprintf(t->local, sizeof(t->local), "127.0.0.1");
	kv_device_limits_unknown(&b->device[0].limits);
	b->device[0].need = b->process = (struct kv_need){.endpoints = endpoints,
							  .mrs = 2 * endpoints,
							  .files = 12 * endpoints,
							  .registered_bytes = (uint64_t)endpoints << 26,
							  .threads = 1};
}

int rig_make(void **state)
{
	struct doctor *d = calloc(1, sizeof(*d));
	struct kv_error err;
	char *argv[] = {(char *)(uintptr_t)"kv-doctor", NULL};
	assert_non_null(d);
	assert_int_equal(doctor_options_parse(1, argv, &options, &err), 0);
	d->opt = &options;
	d->root = "";
	d->rdma = calloc(TE_RDMA_MAX, sizeof(*d->rdma));
	assert_non_null(d->rdma);
	d->wmem_max = d->rmem_max = KV_UNKNOWN;
	d->client = (struct role){.name = "kv-bench", .present = true, .engines = 4, .threads = 1};
	d->server = (struct role){.name = "kv-server", .present = true, .engines = 2, .threads = 1};
	budget_make(&d->client.budget, 4);
	budget_make(&d->server.budget, 2);
	*state = d;
	return 0;
}

int rig_remove(void **state)
{
	struct doctor *d = *state;
	free(d->rdma);
	free(d);
	return 0;
}

struct doctor_options *rig_options(struct doctor *d)
{
	assert_ptr_equal(d->opt, &options);
	return &options;
}

char *rig_text(const struct doctor *d)
{
	char *text = NULL;
	size_t len = 0;
	FILE *f = open_memstream(&text, &len);
	assert_non_null(f);
	text_print(d, f);
	assert_int_equal(fclose(f), 0);
	return text;
}

const struct finding *rig_finding(const struct doctor *d, const char *id)
{
	for (unsigned i = 0; i < d->num_findings; i++)
		if (strcmp(d->finding[i].id, id) == 0)
			return &d->finding[i];
	return NULL;
}

void rig_is(const struct doctor *d, const char *id, enum kv_status status, const char *text, const char *remedy)
{
	const struct finding *f = rig_finding(d, id);
	if (!f)
		fail_msg("nothing was found of %s", id);
	if (f->status != status || !strstr(f->text, text) || !strstr(f->remedy, remedy))
		fail_msg("%s is %s: '%s' '%s'", id, doctor_status_name(f->status), f->text, f->remedy);
}
