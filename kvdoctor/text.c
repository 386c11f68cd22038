/* SPDX-License-Identifier: Apache-2.0 */
/* text.c -- the report for people. The verdict comes last, next to the prompt that follows. Each problem has its remedy
 * below it. Colours appear on a terminal only, and never with NO_COLOR. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "host/host.h"
#include "kvdoctor/doctor.h"

enum { NAME_WIDTH = 27, NUMBER = 32, NAMED_MAX = 6 };

struct printer {
	FILE *out;
	bool colour;
};

static const char *mark(enum kv_status status)
{
	static const char *const marks[] = {"", "ok", "info", "WARN", "FAIL"};
	return (unsigned)status < KV_COUNT(marks) ? marks[status] : "";
}

static const char *paint(const struct printer *p, enum kv_status status)
{
	static const char *const codes[] = {"", "\033[32m", "\033[36m", "\033[33m", "\033[1;31m"};
	return p->colour && (unsigned)status < KV_COUNT(codes) ? codes[status] : "";
}

static const char *plain(const struct printer *p)
{
	return p->colour ? "\033[0m" : "";
}

static void finding_print(const struct printer *p, const struct finding *f, unsigned others)
{
	char name[WORD_MAX + 56], more[16] = "", head[WORD_MAX + 96];
	if (others)
		snprintf(more, sizeof(more), " +%u", others);
	snprintf(name, sizeof(name), "%s%s%s%s", f->subject, more, f->subject[0] ? ": " : "", f->name);
	snprintf(head, sizeof(head), "  %s%-4s%s  %-*s ", paint(p, f->status), mark(f->status), plain(p), NAME_WIDTH,
		 name);
	kv_wrap(p->out, head, NAME_WIDTH + 9, "%s", f->text);
	if (f->remedy[0])
		kv_wrap(p->out, f->status >= KV_WARN ? "        fix: " : "        try: ", 0, "%s", f->remedy);
}

static void title(const struct printer *p, const char *text)
{
	fprintf(p->out, "\n%s\n", text);
}

static void label(const struct printer *p, const char *name, const char *text)
{
	char head[16];
	snprintf(head, sizeof(head), "%-12s", name);
	kv_wrap(p->out, head, 0, "%s", text);
}

/* ---- this machine ---- */

static void machine_print(const struct printer *p, const struct doctor *d)
{
	const struct kv_host *h = &d->host;
	char line[512], total[NUMBER], left[NUMBER];
	snprintf(line, sizeof(line), "%s%sLinux %s, %u CPU%s, %s of memory (%s available)%s%s%s%s", h->system,
		 h->system[0] ? ", " : "", h->kernel[0] ? h->kernel : "?", h->cpus, kv_plural(h->cpus),
		 h->memory_total == KV_UNKNOWN ? "?" : kv_size_format(h->memory_total, total, sizeof(total)),
		 h->memory_available == KV_UNKNOWN ? "?" : kv_size_format(h->memory_available, left, sizeof(left)),
		 h->container ? ", in a container (" : "", kv_container_name(h->container), h->container ? ")" : "",
		 h->root ? ", as root" : "");
	label(p, "machine", line);
	if (*d->root) {
		snprintf(line, sizeof(line),
			 "of %.400s: limits are that machine's, libfabric and devices are this one's", d->root);
		label(p, "", line);
	}
	snprintf(line, sizeof(line), "%s (%s); built with the headers of %u.%u", d->library.version,
		 d->library.path[0] ? d->library.path : "linked in", d->library.built_major, d->library.built_minor);
	label(p, "libfabric", line);
	for (unsigned i = 0; i < d->num_libraries; i++)
		if (strcmp(d->libraries[i], d->library.path) != 0)
			label(p, "", d->libraries[i]);
	label(p, "libibverbs", d->library.verbs_path[0] ? d->library.verbs_path : "linked in");
	line[0] = '\0';
	for (unsigned i = 0; i < d->num_modules; i++)
		snprintf(line + strlen(line), sizeof(line) - strlen(line), "%s%s (%s)", i ? ", " : "",
			 d->module[i].name, d->module[i].version);
	label(p, "modules", d->num_modules ? line : "none for RDMA");
}

static const char *number_text(uint64_t v, char *buf)
{
	if (v == KV_UNKNOWN)
		return "?";
	snprintf(buf, NUMBER, "%" PRIu64, v);
	return buf;
}

static void port_print(const struct printer *p, const struct te_rdma *r, const struct te_rdma_port *q)
{
	if (r->num_ports > 1)
		fprintf(p->out, "  %-12s port %u    %s, %s\n", "", q->number, q->state, q->rate);
	if (!r->efa)
		fprintf(p->out, "  %-12s           %s%s%s, GID %s%s%s%s\n", "", q->link_layer, q->netdev[0] ? ", " : "",
			q->netdev, q->gid[0] ? q->gid : "none", q->gid_type[0] ? " (" : "", q->gid_type,
			q->gid_type[0] ? ")" : "");
}

/* A p5 has 32 equal devices: their limits are printed once. */
static bool allows_the_same(const struct te_rdma *a, const struct te_rdma *b)
{
	return a->qp_max == b->qp_max && a->cq_max == b->cq_max && a->cqe_max == b->cqe_max && a->mr_max == b->mr_max &&
	       a->wr_max == b->wr_max && a->mr_bytes_max == b->mr_bytes_max &&
	       a->efa_rdma_bytes_max == b->efa_rdma_bytes_max;
}

static void allows_print(const struct printer *p, const struct te_rdma *r)
{
	char qps[NUMBER], cqs[NUMBER], cqes[NUMBER], mrs[NUMBER], size[NUMBER];
	if (r->qp_max != KV_UNKNOWN)
		fprintf(p->out,
			"  %-12s allows    %s queue pairs, %s CQs of %s entries, %s regions of %s, queues of %u\n", "",
			number_text(r->qp_max, qps), number_text(r->cq_max, cqs), number_text(r->cqe_max, cqes),
			number_text(r->mr_max, mrs),
			r->mr_bytes_max >> 63 ? "any size" : kv_size_format(r->mr_bytes_max, size, sizeof(size)),
			(unsigned)r->wr_max);
	if (r->efadv)
		fprintf(p->out, "  %-12s           RDMA of %s, send queue %u, receive queue %u, inline %u\n", "",
			kv_size_format(r->efa_rdma_bytes_max, size, sizeof(size)), r->efa_sq_max, r->efa_rq_max,
			r->efa_inline);
}

static void rdma_print(const struct printer *p, const struct doctor *d)
{
	char used[NUMBER], numa[16];
	for (unsigned i = 0; i < d->num_rdma; i++) {
		const struct te_rdma *r = &d->rdma[i];
		snprintf(numa, sizeof(numa), r->numa_node < 0 ? "-" : "%d", r->numa_node);
		fprintf(p->out, "  %-12s %-9s %s, %s, NUMA %s, PCI %s, firmware %s, queue pairs in use: %s\n", r->name,
			r->driver[0] ? r->driver : "software", r->num_ports == 1 ? r->port[0].state : "see below",
			r->num_ports == 1 ? r->port[0].rate : "see below", numa, r->pci[0] ? r->pci : "-",
			r->firmware[0] ? r->firmware : "?", number_text(r->qp_used, used));
		for (unsigned k = 0; k < r->num_ports; k++)
			port_print(p, r, &r->port[k]);
		if (i + 1 == d->num_rdma || !allows_the_same(r, &d->rdma[i + 1]))
			allows_print(p, r);
	}
	if (d->num_rdma == 0)
		fprintf(p->out, "  no RDMA device in /sys/class/infiniband\n");
}

static void netdevs_print(const struct printer *p, const struct doctor *d)
{
	for (unsigned i = 0; i < d->num_netdevs; i++) {
		const struct netdev *n = &d->netdev[i];
		char speed[NUMBER] = "speed unknown";
		if (!n->up)
			continue;
		if (n->speed_mbps > 0)
			doctor_speed(n->speed_mbps, speed, sizeof(speed));
		fprintf(p->out, "  %-12s %-9s up, %s, MTU %ld, %s\n", n->name, n->driver[0] ? n->driver : "-", speed,
			n->mtu, n->address[0] ? n->address : "no address");
	}
	fprintf(p->out, "  %-12s           congestion control %s, qdisc %s\n", "tcp",
		d->congestion[0] ? d->congestion : "?", d->qdisc[0] ? d->qdisc : "?");
}

static void providers_print(const struct printer *p, const struct doctor *d)
{
	const char *chosen = d->client.rc == 0 ? d->client.budget.device[0].device.short_name : "";
	fprintf(p->out, "  providers    ");
	for (unsigned i = 0; i < d->num_providers; i++)
		if (d->provider[i].devices)
			fprintf(p->out, "%s%s%s ", d->provider[i].name,
				strcmp(d->provider[i].name, chosen) == 0 ? " (chosen)" : "",
				d->provider[i].devices ? "" : " no");
	fprintf(p->out, "\n  not here     ");
	for (unsigned i = 0; i < d->num_providers; i++)
		if (!d->provider[i].devices)
			fprintf(p->out, "%s ", d->provider[i].name);
	fputc('\n', p->out);
}

/* ---- the run ---- */

static void need_row(const struct printer *p, const struct doctor *d, const char *name, uint64_t client,
		     uint64_t server, bool bytes)
{
	char a[NUMBER], b[NUMBER];
	if (client == 0 && server == 0)
		return;
	if (bytes)
		kv_size_format(client, a, sizeof(a)), kv_size_format(server, b, sizeof(b));
	else
		number_text(client, a), number_text(server, b);
	fprintf(p->out, "  %-24s %14s", name, a);
	if (d->server.present)
		fprintf(p->out, " %14s", b);
	fputc('\n', p->out);
}

static void run_print(const struct printer *p, const struct doctor *d)
{
	const struct kv_need *c = &d->client.budget.process, *s = &d->server.budget.process;
	if (d->client.rc || (d->server.present && d->server.rc))
		return;
	fprintf(p->out, "  %-24s %14s%s\n", "", "kv-bench", d->server.present ? "      kv-server" : "");
	need_row(p, d, "clients, shards", d->client.engines, d->server.engines, false);
	need_row(p, d, "NICs of each", d->client.budget.rails, d->server.budget.rails, false);
	need_row(p, d, "worker threads", c->threads, s->threads, false);
	need_row(p, d, "endpoints", c->endpoints, s->endpoints, false);
	need_row(p, d, "queue pairs", c->qps, s->qps, false);
	need_row(p, d, "completion queues", c->cqs, s->cqs, false);
	need_row(p, d, "entries of a CQ", c->cqs ? c->cq_entries : 0, s->cqs ? s->cq_entries : 0, false);
	need_row(p, d, "memory regions", c->mrs, s->mrs, false);
	need_row(p, d, "registered memory", c->registered_bytes, s->registered_bytes, true);
	need_row(p, d, "locked memory", d->client.budget.pins_memory ? c->pinned_bytes : 0,
		 d->client.budget.pins_memory ? s->pinned_bytes : 0, true);
	need_row(p, d, "memory", c->memory_bytes, s->memory_bytes, true);
	need_row(p, d, "best in huge pages", c->huge_bytes, s->huge_bytes, true);
	need_row(p, d, "in /dev/shm", c->shm_bytes, s->shm_bytes, true);
	need_row(p, d, "open files", c->files, s->files, false);
}

/* ---- the report ---- */

/* Whether two findings differ in the subject alone. */
static bool alike(const struct finding *a, const struct finding *b)
{
	return a->section == b->section && a->status == b->status && strcmp(a->id, b->id) == 0 &&
	       strcmp(a->name, b->name) == 0 && strcmp(a->text, b->text) == 0 && strcmp(a->remedy, b->remedy) == 0;
}

/* Equal findings become one line: "rdmap79s0 +31". */
static void section_print(const struct printer *p, const struct doctor *d, enum section section)
{
	for (unsigned i = 0; i < d->num_findings; i++) {
		const struct finding *f = &d->finding[i];
		unsigned before = 0, after = 0;
		if (f->section != section || (d->opt->quiet && f->status < KV_WARN))
			continue;
		for (unsigned k = 0; k < i; k++)
			before += alike(&d->finding[k], f);
		for (unsigned k = i + 1; k < d->num_findings; k++)
			after += alike(&d->finding[k], f);
		if (before == 0)
			finding_print(p, f, after);
	}
}

static bool section_is_empty(const struct doctor *d, enum section section)
{
	for (unsigned i = 0; i < d->num_findings; i++)
		if (d->finding[i].section == section)
			return false;
	return true;
}

static void facts_print(const struct printer *p, const struct doctor *d)
{
	fprintf(p->out, "kv-doctor %s: a run with %u client%s and %u worker%s on this machine\n\n", KVRAIL_VERSION,
		d->opt->num_clients, kv_plural(d->opt->num_clients), d->opt->num_workers,
		kv_plural(d->opt->num_workers));
	machine_print(p, d);
	section_print(p, d, SECTION_LIBRARIES);
	title(p, "devices");
	rdma_print(p, d);
	netdevs_print(p, d);
	providers_print(p, d);
	section_print(p, d, SECTION_DEVICES);
	section_print(p, d, SECTION_NETWORK);
	title(p, "the run");
	run_print(p, d);
	title(p, "is there enough");
	section_print(p, d, SECTION_RUN);
	title(p, "does it work");
	section_print(p, d, SECTION_TRY);
	if (!section_is_empty(d, SECTION_ADVICE))
		title(p, "advice");
	section_print(p, d, SECTION_ADVICE);
}

static void verdict_print(const struct printer *p, const struct doctor *d)
{
	unsigned fails = doctor_count(d, KV_FAIL), warns = doctor_count(d, KV_WARN);
	enum kv_status worst = doctor_worst(d);
	static const char *const words[] = {
		[KV_OK] = "ok", [KV_WARN] = "ok, with warnings", [KV_FAIL] = "FAILS, the run would not work"};
	fprintf(p->out, "%s%sverdict: %s%s", d->opt->quiet ? "" : "\n", paint(p, worst), words[worst], plain(p));
	if (fails)
		fprintf(p->out, " (%u problem%s", fails, kv_plural(fails));
	if (warns)
		fprintf(p->out, "%s%u warning%s", fails ? ", " : " (", warns, kv_plural(warns));
	fprintf(p->out, "%s", fails || warns ? "): " : "\n");
	unsigned named = 0;
	for (unsigned i = 0; i < d->num_findings && worst >= KV_WARN; i++) {
		if (d->finding[i].status != worst)
			continue;
		if (named++ < NAMED_MAX)
			fprintf(p->out, "%s%s%s%s", named == 1 ? "" : ", ", d->finding[i].subject,
				d->finding[i].subject[0] ? " " : "", d->finding[i].name);
	}
	if (named > NAMED_MAX)
		fprintf(p->out, " and %u more", named - NAMED_MAX);
	if (fails || warns)
		fputc('\n', p->out);
}

void text_print(const struct doctor *d, FILE *out)
{
	struct printer p = {.out = out, .colour = kv_terminal_colours(out)};
	if (d->opt->quiet)
		for (enum section s = 0; s < SECTIONS; s++)
			section_print(&p, d, s);
	else
		facts_print(&p, d);
	verdict_print(&p, d);
}
