/* SPDX-License-Identifier: Apache-2.0 */
/* advise.c -- advice to make the run faster, or to let it use a better provider.
 *
 * Invariant: advice never says that a run fails. A figure comes with the place of its measurement
 * (docs/internals/providers.md, docs/runs/0.1.0.md). */
#include <string.h>

#include "kvdoctor/doctor.h"

enum { FAST_MBPS = 10000, SHORT_RTT_US = 500, TRIAL_BYTES = 2 << 20 };

static const char *provider_of(const struct doctor *d)
{
	return d->client.rc == 0 ? d->client.budget.device[0].device.short_name : "";
}

static bool over_tcp(const struct doctor *d)
{
	return strncmp(provider_of(d), "tcp", 3) == 0 || strcmp(provider_of(d), "net") == 0;
}

static bool on_loopback(const struct doctor *d)
{
	const char *local = d->client.budget.device[0].device.local;
	return strncmp(local, "127.", 4) == 0 || strcmp(local, "::1") == 0;
}

/* Why this provider offers no device, in libfabric's words. */
static const char *why_not(const struct doctor *d, const char *name)
{
	for (unsigned i = 0; i < d->num_providers; i++)
		if (strcmp(d->provider[i].name, name) == 0)
			return d->provider[i].why;
	return "";
}

static void advise_rdma_unused(struct doctor *d)
{
	if (!over_tcp(d) || strcmp(d->opt->provider, "auto") != 0)
		return;
	for (unsigned i = 0; i < d->num_rdma; i++) {
		const struct te_rdma *r = &d->rdma[i];
		const char *name = r->efa ? "efa" : "verbs";
		const struct te_rdma_port *p = &r->port[0];
		doctor_found(d, SECTION_ADVICE, KV_WARN, "rdma_unused", r->name, "not used",
			     "this machine has an RDMA device, but the run would use tcp: %s", why_not(d, name));
		if (r->node_error > 0 || r->query_error[0])
			doctor_remedy(d, "see the line on its device file or libibverbs above: libfabric does not see "
					 "the device");
		else if (!p->active)
			doctor_remedy(d, "see the line on its port above");
		else if (!r->efa)
			doctor_remedy(d,
				      "give its port an IP address, which the verbs "
				      "provider needs (`ip addr add A.B.C.D/24 dev %s`)",
				      p->netdev[0] ? p->netdev : "DEV");
		else
			doctor_remedy(d, "`FI_LOG_LEVEL=info fi_info -p efa` shows why");
	}
}

/* Clients on a server's host read in place, if this machine can share memory. */
static void advise_one_host(struct doctor *d)
{
	struct kv_area area;
	struct kv_error why = {0};
	if (d->opt->servers.count || !over_tcp(d) || d->num_rdma)
		return;
	if (kv_area_map_shared(TRIAL_BYTES, KV_NODE_ANY, &area, &why)) {
		doctor_found(d, SECTION_ADVICE, KV_INFO, "one_host", "machine", "one host",
			     "clients on a server's host get copies over the fabric: %s", why.text);
		doctor_remedy(d, "with Linux 5.1 or newer and vm.overcommit_memory 0 or 1 they read the values in the "
				 "server's memory");
		return;
	}
	kv_area_unmap(&area);
	doctor_found(d, SECTION_ADVICE, KV_INFO, "one_host", "machine", "one host",
		     "clients on a server's host read the values in its memory, without the fabric");
	doctor_remedy(d, "for clients in other containers give the server `--local-socket PATH`, in a folder that they "
			 "mount; --provider shm is for comparisons only: a killed process may leave the others "
			 "hanging");
}

static void advise_congestion(struct doctor *d)
{
	bool paced = strncmp(d->congestion, "bbr", 3) == 0, fq = strcmp(d->qdisc, "fq") == 0;
	char stay[160] = "";
	if (!over_tcp(d) || !paced)
		return;
	if (on_loopback(d)) {
		doctor_found(d, SECTION_ADVICE, KV_INFO, "congestion", "tcp", "congestion",
			     "%s paces clients' bytes (requests, data of PUTs) by timers. GETs are not affected: "
			     "KVRail sets reno on the connections that it accepts on loopback",
			     d->congestion);
		doctor_remedy(d,
			      "`sysctl -w net.ipv4.tcp_congestion_control=%s` if PUTs matter (a 1 MiB stream over "
			      "loopback: 4.5 GB/s with all of it paced, 8 GB/s with reno)",
			      strstr(d->congestions, "cubic") ? "cubic" : "reno");
		return;
	}
	doctor_found(d, SECTION_ADVICE, KV_INFO, "congestion", "tcp", "congestion",
		     "%s paces every segment by a timer, which costs CPU (up to a fifth, seen on loopback)%s",
		     d->congestion, fq ? "; qdisc fq, the default here, does it at less cost" : "");
	if (!fq)
		snprintf(stay, sizeof(stay),
			 "; to stay with %s: `tc qdisc replace dev DEV root fq`, "
			 "and net.core.default_qdisc=fq for later devices",
			 d->congestion);
	doctor_remedy(d,
		      "inside one data centre compare with `sysctl -w net.ipv4.tcp_congestion_control=%s` on all hosts "
		      "(between hosts it is not measured yet)%s",
		      strstr(d->congestions, "cubic") ? "cubic" : "reno", stay);
}

/* The fastest interface that is up; NULL when no speed is known. */
static const struct netdev *fastest(const struct doctor *d)
{
	const struct netdev *best = NULL;
	for (unsigned i = 0; i < d->num_netdevs; i++)
		if (d->netdev[i].up && d->netdev[i].speed_mbps > 0 &&
		    (!best || d->netdev[i].speed_mbps > best->speed_mbps))
			best = &d->netdev[i];
	return best;
}

static void advise_buffers(struct doctor *d, const struct netdev *n)
{
	uint64_t least = KV_MIN(d->wmem_max, d->rmem_max / 2); /* the kernel uses half of a receive buffer itself */
	char size[32], speed[32];
	if (d->wmem_max == KV_UNKNOWN || d->rmem_max == KV_UNKNOWN)
		return;
	uint64_t rtt_us = least * 8 / (uint64_t)n->speed_mbps;
	if (rtt_us >= SHORT_RTT_US)
		return;
	doctor_found(d, SECTION_ADVICE, KV_INFO, "socket_buffers", n->name, "socket buffers",
		     "a connection has %s at most, enough for full speed (%s) up to a round trip of %llu us",
		     kv_size_format(least, size, sizeof(size)), doctor_speed(n->speed_mbps, speed, sizeof(speed)),
		     (unsigned long long)rtt_us);
	doctor_remedy(
		d, "`sysctl -w net.ipv4.tcp_wmem=\"4096 16384 33554432\" net.ipv4.tcp_rmem=\"4096 131072 67108864\"`");
}

static void advise_mtu(struct doctor *d, const struct netdev *n)
{
	if (n->speed_mbps < FAST_MBPS || n->mtu <= 0 || n->mtu > 1500)
		return;
	char speed[32];
	doctor_found(d, SECTION_ADVICE, KV_INFO, "mtu", n->name, "MTU", "%ld at %s", n->mtu,
		     doctor_speed(n->speed_mbps, speed, sizeof(speed)));
	doctor_remedy(d,
		      "`ip link set %s mtu 9001` in an AWS VPC, 9000 elsewhere, "
		      "if the whole path allows it (`ping -M do -s 8972 HOST`)",
		      n->name);
}

static void advise_huge_pages(struct doctor *d)
{
	char line[96];
	if (!kv_file_line(line, sizeof(line), "%s/sys/kernel/mm/transparent_hugepage/enabled", d->root) ||
	    !strstr(line, "[never]"))
		return;
	doctor_found(d, SECTION_ADVICE, KV_INFO, "transparent_hugepage", "machine", "huge pages",
		     "transparent huge pages are off: arena, buffers and index lie in pages of 4 KiB");
	doctor_remedy(d, "`echo madvise > /sys/kernel/mm/transparent_hugepage/enabled`");
}

static void advise_efa(struct doctor *d)
{
	if (strncmp(provider_of(d), "efa", 3) != 0)
		return;
	doctor_found(d, SECTION_ADVICE, KV_INFO, "security_group", "efa", "network",
		     "a trial on one host does not cross the network: the security group decides "
		     "which hosts can be reached");
	doctor_remedy(d, "allow all traffic from and to the security group itself, in and out; test with `fi_pingpong "
			 "-p efa HOST`");
}

static void advise_verbs(struct doctor *d)
{
	if (strcmp(provider_of(d), "verbs") != 0)
		return;
	for (unsigned i = 0; i < d->num_rdma; i++) {
		const struct te_rdma_port *p = &d->rdma[i].port[0];
		if (strcmp(p->link_layer, "Ethernet") != 0 || !p->active || strcmp(d->rdma[i].driver, "") == 0)
			continue;
		doctor_found(d, SECTION_ADVICE, KV_INFO, "roce", d->rdma[i].name, "RoCE",
			     "RoCE needs a network that loses no packets, or marks congestion before it does");
		doctor_remedy(d,
			      "set up priority flow control or ECN (DCQCN) on switches and NIC; the type of this GID "
			      "is %s, and only RoCE v2 is routed",
			      p->gid_type[0] ? p->gid_type : "unknown");
		return;
	}
}

void doctor_advise(struct doctor *d)
{
	const struct netdev *n = fastest(d);
	advise_rdma_unused(d);
	advise_one_host(d);
	advise_congestion(d);
	if (n && over_tcp(d) && d->client.rc == 0 && !on_loopback(d)) {
		advise_buffers(d, n);
		advise_mtu(d, n);
	}
	advise_huge_pages(d);
	advise_efa(d);
	advise_verbs(d);
}
