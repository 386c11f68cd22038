/* SPDX-License-Identifier: Apache-2.0 */
/* network.c -- network interfaces and the kernel's TCP settings. Facts alone: advise.c explains them. */
#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <string.h>

#include "kvdoctor/doctor.h"

static void netdev_add(const char *entry, void *arg)
{
	struct doctor *d = arg;
	char state[24];
	if (d->num_netdevs == NETDEVS_MAX || strlen(entry) >= sizeof(d->netdev[0].name))
		return;
	struct netdev *n = &d->netdev[d->num_netdevs];
	memset(n, 0, sizeof(*n));
	snprintf(n->name, sizeof(n->name), "%.23s", entry);
	if (!kv_file_line(state, sizeof(state), "%s/sys/class/net/%s/operstate", d->root, entry))
		return; /* bonding_masters and the like are files */
	n->up = strcmp(state, "up") == 0 || (strcmp(entry, "lo") == 0 && strcmp(state, "unknown") == 0);
	n->speed_mbps = kv_file_number(-1, "%s/sys/class/net/%s/speed", d->root, entry);
	n->mtu = kv_file_number(-1, "%s/sys/class/net/%s/mtu", d->root, entry);
	n->numa_node = (int)kv_file_number(-1, "%s/sys/class/net/%s/device/numa_node", d->root, entry);
	kv_link_last(n->driver, sizeof(n->driver), "%s/sys/class/net/%s/device/driver", d->root, entry);
	d->num_netdevs++;
}

/* /sys shows the network namespace of its mount, which may not be ours; getifaddrs shows ours. */
static void flags_take(struct doctor *d, const struct ifaddrs *all)
{
	for (unsigned i = 0; i < d->num_netdevs; i++) {
		struct netdev *n = &d->netdev[i];
		n->up = false;
		for (const struct ifaddrs *a = all; a; a = a->ifa_next)
			if (strcmp(n->name, a->ifa_name) == 0)
				n->up = (a->ifa_flags & IFF_UP) && (a->ifa_flags & IFF_RUNNING);
	}
}

/* The address for inet_ntop; NULL: it is of another family. */
static const void *bytes_of(const struct sockaddr *sa)
{
	if (sa->sa_family == AF_INET)
		return &((const struct sockaddr_in *)(const void *)sa)->sin_addr;
	return sa->sa_family == AF_INET6 ? &((const struct sockaddr_in6 *)(const void *)sa)->sin6_addr : NULL;
}

/* Gives each interface its first address, IPv4 before IPv6. */
static void addresses_add(struct doctor *d)
{
	struct ifaddrs *all;
	if (*d->root || getifaddrs(&all))
		return;
	flags_take(d, all);
	for (const struct ifaddrs *a = all; a; a = a->ifa_next) {
		const struct sockaddr *sa = a->ifa_addr;
		const void *at = sa ? bytes_of(sa) : NULL;
		for (unsigned i = 0; at && i < d->num_netdevs; i++) {
			struct netdev *n = &d->netdev[i];
			bool better = !n->address[0] || (sa->sa_family == AF_INET && strchr(n->address, ':'));
			if (strcmp(n->name, a->ifa_name) == 0 && better)
				inet_ntop(sa->sa_family, at, n->address, sizeof(n->address));
		}
	}
	freeifaddrs(all);
}

/* "4096	16384	4194304": the third one. */
static uint64_t largest_of(const char *root, const char *name)
{
	char line[96], least[32], usual[32], most[32];
	uint64_t value;
	if (!kv_file_line(line, sizeof(line), "%s/proc/sys/net/ipv4/%s", root, name) ||
	    sscanf(line, "%31s %31s %31s", least, usual, most) != 3)
		return KV_UNKNOWN;
	return kv_u64_parse(most, &value) == 0 ? value : KV_UNKNOWN;
}

const char *doctor_speed(long mbps, char *buf, size_t cap)
{
	snprintf(buf, cap, mbps % 1000 ? "%ld Mb/s" : "%ld Gb/s", mbps % 1000 ? mbps : mbps / 1000);
	return buf;
}

void doctor_network(struct doctor *d)
{
	kv_dir_each(netdev_add, d, "%s/sys/class/net", d->root);
	addresses_add(d);
	kv_file_line(d->congestion, sizeof(d->congestion), "%s/proc/sys/net/ipv4/tcp_congestion_control", d->root);
	kv_file_line(d->congestions, sizeof(d->congestions), "%s/proc/sys/net/ipv4/tcp_available_congestion_control",
		     d->root);
	kv_file_line(d->qdisc, sizeof(d->qdisc), "%s/proc/sys/net/core/default_qdisc", d->root);
	d->wmem_max = largest_of(d->root, "tcp_wmem");
	d->rmem_max = largest_of(d->root, "tcp_rmem");
}
