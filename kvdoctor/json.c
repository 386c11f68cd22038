/* SPDX-License-Identifier: Apache-2.0 */
/* json.c -- the report for programs: schema "kvdoctor/1", described in docs/guide/troubleshooting.md.
 *
 * Invariants: a name is never changed or reused; new ones may come. An unknown number, or a missing limit, is null. */
#include <jansson.h>
#include <stdlib.h>

#include "host/host.h"
#include "kvdoctor/doctor.h"

static json_t *number(uint64_t v)
{
	return v == KV_UNKNOWN || v == KV_NO_LIMIT || v > INT64_MAX ? json_null() : json_integer((json_int_t)v);
}

static json_t *known(long v)
{
	return v < 0 ? json_null() : json_integer(v);
}

/* Paths and the like may hold any bytes. Text other than UTF-8 becomes null. */
static json_t *text(const char *s)
{
	json_t *t = json_string(s);
	return t ? t : json_null();
}

static json_t *machine(const struct doctor *d)
{
	const struct kv_host *h = &d->host;
	return json_pack("{s:o, s:o, s:o, s:b, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}",
			 "system", text(h->system), "kernel", text(h->kernel), "container",
			 text(kv_container_name(h->container)), "root", h->root, "cpus", number(h->cpus),
			 "memory_bytes", number(h->memory_total), "memory_available_bytes", number(h->memory_available),
			 "cgroup_memory_bytes", number(h->memory_group), "cgroup_cpus", number(h->cpus_group),
			 "files_soft", number(h->files_soft), "files_hard", number(h->files_hard), "memlock_soft_bytes",
			 number(h->memlock_soft), "memlock_hard_bytes", number(h->memlock_hard), "shm_free_bytes",
			 number(h->shm_free), "hugepages_1g_free", number(h->huge[0].free), "hugepages_2m_free",
			 number(h->huge[1].free), "ptrace_scope", known(h->ptrace_scope), "io_uring_disabled",
			 known(h->uring_disabled));
}

static json_t *libraries(const struct doctor *d)
{
	json_t *files = json_array(), *modules = json_object();
	char built[32];
	snprintf(built, sizeof(built), "%u.%u", d->library.built_major, d->library.built_minor);
	for (unsigned i = 0; i < d->num_libraries; i++)
		json_array_append_new(files, text(d->libraries[i]));
	for (unsigned i = 0; i < d->num_modules; i++)
		json_object_set_new(modules, d->module[i].name, text(d->module[i].version));
	return json_pack("{s:o, s:o, s:o, s:i, s:o, s:o, s:o}", "libfabric", text(d->library.version), "libfabric_path",
			 text(d->library.path), "libfabric_headers", text(built), "libfabric_other_copies_loaded",
			 (int)d->library.num_copies, "libfabric_files", files, "libibverbs_path",
			 text(d->library.verbs_path), "modules", modules);
}

static json_t *ports(const struct te_rdma *r)
{
	json_t *array = json_array();
	for (unsigned i = 0; i < r->num_ports; i++) {
		const struct te_rdma_port *p = &r->port[i];
		json_array_append_new(array,
				      json_pack("{s:i, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:b}", "port", (int)p->number,
						"state", text(p->state), "physical_state", text(p->physical), "rate",
						text(p->rate), "link_layer", text(p->link_layer), "gid", text(p->gid),
						"gid_type", text(p->gid_type), "netdev", text(p->netdev), "active",
						p->active));
	}
	return array;
}

static json_t *efa(const struct te_rdma *r)
{
	if (!r->efadv)
		return json_null();
	return json_pack("{s:b, s:b, s:b, s:o, s:i, s:i, s:i}", "rdma_read", !!(r->efa_caps & TE_EFA_READ),
			 "rdma_write", !!(r->efa_caps & TE_EFA_WRITE), "unsolicited_write_receive",
			 !!(r->efa_caps & TE_EFA_UNSOLICITED), "rdma_max_bytes", number(r->efa_rdma_bytes_max),
			 "send_queue_max", (int)r->efa_sq_max, "receive_queue_max", (int)r->efa_rq_max, "device_caps",
			 (int)r->efa_caps);
}

static json_t *rdma_devices(const struct doctor *d)
{
	json_t *array = json_array();
	for (unsigned i = 0; i < d->num_rdma; i++) {
		const struct te_rdma *r = &d->rdma[i];
		json_array_append_new(array, json_pack("{s:o, s:o, s:o, s:o, s:i, s:i, s:o, s:o, s:o, s:o, s:o, s:o, "
						       "s:o, s:o, s:o, s:o, s:o, s:o, s:o}",
						       "name", text(r->name), "driver", text(r->driver), "firmware",
						       text(r->firmware), "pci", text(r->pci), "vendor", (int)r->vendor,
						       "part", (int)r->part, "numa_node", known(r->numa_node),
						       "device_file", text(r->node), "qp_max", number(r->qp_max),
						       "qp_in_use", number(r->qp_used), "cq_max", number(r->cq_max),
						       "cq_in_use", number(r->cq_used), "cqe_max", number(r->cqe_max),
						       "mr_max", number(r->mr_max), "mr_in_use", number(r->mr_used),
						       "mr_max_bytes", number(r->mr_bytes_max), "wr_max",
						       number(r->wr_max), "efa", efa(r), "ports", ports(r)));
	}
	return array;
}

static json_t *network(const struct doctor *d)
{
	json_t *array = json_array();
	for (unsigned i = 0; i < d->num_netdevs; i++) {
		const struct netdev *n = &d->netdev[i];
		json_array_append_new(array, json_pack("{s:o, s:b, s:o, s:o, s:o, s:o, s:o}", "name", text(n->name),
						       "up", n->up, "speed_mbps", known(n->speed_mbps), "mtu",
						       known(n->mtu), "driver", text(n->driver), "address",
						       text(n->address), "numa_node", known(n->numa_node)));
	}
	return json_pack("{s:o, s:o, s:o, s:o, s:o}", "devices", array, "congestion_control", text(d->congestion),
			 "qdisc", text(d->qdisc), "tcp_wmem_max_bytes", number(d->wmem_max), "tcp_rmem_max_bytes",
			 number(d->rmem_max));
}

static json_t *providers(const struct doctor *d)
{
	json_t *array = json_array();
	for (unsigned i = 0; i < d->num_providers; i++)
		json_array_append_new(array,
				      json_pack("{s:o, s:o, s:b, s:i}", "name", text(d->provider[i].name), "libfabric",
						text(d->provider[i].libfabric), "auto", d->provider[i].automatic,
						"devices", (int)d->provider[i].devices));
	return array;
}

static json_t *role(const struct role *r)
{
	const struct kv_need *n = &r->budget.process;
	json_t *devices = json_array();
	if (!r->present || r->rc) {
		json_decref(devices);
		return json_null();
	}
	for (unsigned i = 0; i < r->budget.num_devices; i++)
		if (r->budget.device[i].need.endpoints)
			json_array_append_new(devices, text(r->budget.device[i].device.domain));
	return json_pack("{s:i, s:i, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "engines",
			 (int)r->engines, "rails", (int)r->budget.rails, "devices", devices, "endpoints",
			 number(n->endpoints), "qps", number(n->qps), "cqs", number(n->cqs), "cq_entries",
			 number(n->cqs ? n->cq_entries : 0), "mrs", number(n->mrs), "registered_bytes",
			 number(n->registered_bytes), "locked_bytes",
			 number(r->budget.pins_memory ? n->pinned_bytes : 0), "memory_bytes", number(n->memory_bytes),
			 "hugepage_bytes", number(n->huge_bytes), "shm_bytes", number(n->shm_bytes), "files",
			 number(n->files), "threads", number(n->threads));
}

static json_t *run(const struct doctor *d)
{
	const struct te_device *t = &d->client.budget.device[0].device;
	bool chosen = d->client.rc == 0;
	return json_pack("{s:o, s:o, s:o, s:o, s:i, s:i, s:o, s:o}", "provider",
			 chosen ? text(t->short_name) : json_null(), "libfabric_name",
			 chosen ? text(t->provider) : json_null(), "fabric", chosen ? text(t->fabric) : json_null(),
			 "why", chosen ? text(d->client.budget.why) : json_null(), "clients", (int)d->opt->num_clients,
			 "workers", (int)d->opt->num_workers, "client", role(&d->client), "server", role(&d->server));
}

static json_t *trial(const struct role *r, const struct trial *t)
{
	if (!r->present || (!t->done && !t->error[0]))
		return json_null();
	return json_pack("{s:i, s:b, s:o, s:o, s:o, s:o, s:b, s:b, s:b, s:o}", "opened", (int)t->opened, "moved",
			 t->moved, "open_ns", number(t->open_ns), "register_ns", number(t->register_ns),
			 "registered_bytes", number(t->registered_bytes), "ping_ns", number(t->ping_ns), "wait_fd",
			 t->wait_fd, "write_emulated", t->write_emulated, "read_emulated", t->read_emulated, "error",
			 t->error[0] ? text(t->error) : json_null());
}

static json_t *findings(const struct doctor *d)
{
	json_t *array = json_array();
	for (unsigned i = 0; i < d->num_findings; i++) {
		const struct finding *f = &d->finding[i];
		json_array_append_new(array, json_pack("{s:s, s:o, s:o, s:o, s:s, s:o, s:o, s:s, s:o, s:o}", "section",
						       section_names[f->section], "id", text(f->id), "subject",
						       text(f->subject), "name", text(f->name), "status",
						       doctor_status_name(f->status), "need", number(f->need), "have",
						       number(f->have), "unit", f->unit, "text", text(f->text),
						       "remedy", f->remedy[0] ? text(f->remedy) : json_null()));
	}
	return array;
}

static json_t *report(const struct doctor *d)
{
	enum kv_status worst = doctor_worst(d);
	return json_pack("{s:s, s:s, s:s, s:b, s:o, s:o, s:o, s:o, s:o, s:o, s:{s:o, s:o}, s:o}", "schema",
			 "kvdoctor/1", "version", KVRAIL_VERSION, "verdict", doctor_status_name(worst), "works",
			 worst != KV_FAIL, "machine", machine(d), "libraries", libraries(d), "rdma_devices",
			 rdma_devices(d), "network", network(d), "providers", providers(d), "run", run(d), "try",
			 "client", trial(&d->client, &d->tried_client), "server", trial(&d->server, &d->tried_server),
			 "findings", findings(d));
}

int json_print(const struct doctor *d, const char *path, struct kv_error *err)
{
	json_t *j = report(d);
	char *text = j ? json_dumps(j, JSON_INDENT(2)) : NULL;
	int rc = text ? 0 : kv_fail(err, -KV_ENOMEM, "no memory for the JSON report");
	struct out_file f;
	if (rc == 0)
		rc = out_file_open(&f, path, "the JSON report", err);
	if (rc == 0)
		rc = out_file_write_line(&f, text, err);
	free(text);
	json_decref(j);
	return rc;
}
