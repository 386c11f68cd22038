/* SPDX-License-Identifier: Apache-2.0 */
/* test_look.c -- machines that this one is not: devices without a driver, ports that are down, settings that hurt,
 * networks that could be faster. */
#include "tests/kvdoctor/rig.h"

#include <errno.h>
#include <stdlib.h>

#include "kvdoctor/try.h"
#include "tests/tree.h"

static int made_up(void **state)
{
	int rc = tree_make(NULL);
	if (rc == 0)
		rc = rig_make(state);
	if (rc == 0)
		((struct doctor *)*state)->root = tree_root;
	return rc;
}

static int gone(void **state)
{
	rig_remove(state);
	return tree_remove(NULL);
}

static void pci(const char *slot, const char *vendor, const char *device, const char *driver)
{
	char path[128], target[64];
	snprintf(path, sizeof(path), "/sys/bus/pci/devices/%s/vendor", slot);
	tree_put(path, vendor);
	snprintf(path, sizeof(path), "/sys/bus/pci/devices/%s/device", slot);
	tree_put(path, device);
	if (!driver)
		return;
	snprintf(path, sizeof(path), "/sys/bus/pci/devices/%s/driver", slot);
	snprintf(target, sizeof(target), "../../../bus/pci/drivers/%s", driver);
	tree_link(path, target);
}

static void an_empty_machine_has_nothing_to_say_of_devices(void **state)
{
	struct doctor *d = *state;
	doctor_look(d);
	assert_int_equal(d->num_rdma, 0);
	assert_int_equal(d->num_modules, 0);
	for (unsigned i = 0; i < d->num_findings; i++)
		assert_int_not_equal(d->finding[i].section, SECTION_DEVICES);
	assert_true(d->num_providers > 0);
}

static void an_efa_device_without_its_driver_is_told(void **state)
{
	struct doctor *d = *state;
	pci("0000:4f:00.0", "0x1d0f\n", "0xefa2\n", NULL);
	pci("0000:50:00.0", "0x1d0f\n", "0xec20\n", "ena"); /* the Ethernet NIC of the same vendor */
	doctor_look(d);
	rig_is(d, "efa_driver", KV_WARN, "without its driver", "modprobe efa");
	assert_string_equal(rig_finding(d, "efa_driver")->subject, "0000:4f:00.0");
	assert_int_equal(doctor_count(d, KV_WARN), 1);
}

static void a_mellanox_nic_without_rdma_is_told(void **state)
{
	struct doctor *d = *state;
	pci("0000:81:00.0", "0x15b3\n", "0x1021\n", "mlx5_core");
	doctor_look(d);
	rig_is(d, "mlx5_driver", KV_WARN, "RDMA driver is not loaded", "modprobe mlx5_ib");
}

static void a_port_that_is_down_is_told(void **state)
{
	struct doctor *d = *state;
	tree_put("/sys/class/infiniband/mlx5_0/ports/1/state", "1: DOWN\n");
	tree_put("/sys/class/infiniband/mlx5_0/ports/1/phys_state", "3: Disabled\n");
	tree_put("/sys/class/infiniband/mlx5_0/ports/1/link_layer", "Ethernet\n");
	tree_put("/sys/class/infiniband/mlx5_0/ports/1/gids/0", "fe80:0000:0000:0000:0000:0000:0000:0001\n");
	tree_put("/sys/class/infiniband/mlx5_0/ports/1/gid_attrs/ndevs/0", "eth2\n");
	tree_put("/sys/module/mlx5_core/version", "24.04-0.6.6\n");
	tree_put("/sys/module/ib_uverbs/refcnt", "1\n");
	doctor_look(d);
	rig_is(d, "rdma_port", KV_WARN, "port 1 is DOWN (Disabled)", "ip link set eth2 up");
	assert_int_equal(d->num_modules, 2);
	assert_string_equal(d->module[0].version, "24.04-0.6.6");
	assert_string_equal(d->module[1].version, "of the kernel");
	d->num_findings = 0;
	doctor_advise(d); /* tcp was chosen all the same */
	rig_is(d, "rdma_unused", KV_WARN, "this machine has an RDMA device", "see the line on its port");
}

static void an_efa_port_is_no_cable(void **state)
{
	struct doctor *d = *state;
	tree_link("/sys/class/infiniband/rdmap79s0/device", "../../../devices/x");
	tree_put("/sys/devices/x/vendor", "0x1d0f\n");
	tree_put("/sys/class/infiniband/rdmap79s0/ports/1/state", "1: DOWN\n");
	doctor_look(d);
	rig_is(d, "rdma_port", KV_WARN, "port 1 is DOWN", "dmesg | grep efa");
}

static void two_addresses_of_a_device_are_two(void **state)
{
	struct doctor *d = *state;
	struct doctor_options *o = rig_options(d);
	d->root = tree_root;
	d->num_rdma = 1; /* so that the source address is anyone's */
	o->provider = "tcp";
	doctor_plan(d);
	if (d->client.rc)
		fail_msg("%s", d->client.error.text);
	unsigned lines = 0;
	for (unsigned i = 0; i < d->num_findings; i++)
		lines += strcmp(d->finding[i].id, "endpoints") == 0;
	assert_int_equal(lines, 1); /* however many addresses this machine has */
}

static void an_infiniband_port_asks_for_a_subnet_manager(void **state)
{
	struct doctor *d = *state;
	tree_put("/sys/class/infiniband/mlx5_0/ports/1/state", "2: INIT\n");
	tree_put("/sys/class/infiniband/mlx5_0/ports/1/link_layer", "InfiniBand\n");
	doctor_look(d);
	rig_is(d, "rdma_port", KV_WARN, "INIT", "subnet manager");
}

static void modules_of_efa_without_the_installer_are_told(void **state)
{
	struct doctor *d = *state;
	tree_link("/sys/class/infiniband/rdmap79s0/device", "../../../devices/x");
	tree_put("/sys/devices/x/vendor", "0x1d0f\n");
	tree_put("/sys/class/infiniband/rdmap79s0/ports/1/state", "4: ACTIVE\n");
	doctor_look(d);
	if (d->installer[0]) {
		print_message("this machine has the EFA installer's libfabric\n");
		skip();
	}
	rig_is(d, "libfabric_installer", KV_WARN, "too old for this device", "EFA installer");
}

/* ---- the environment ---- */

static void settings_that_hurt_are_named(void **state)
{
	struct doctor *d = *state;
	setenv("FI_TCP_ZEROCOPY_SIZE", "4096", 1);
	setenv("FI_EFA_MTU_SIZE", "8192", 1); /* of no concern to tcp */
	doctor_environment(d);
	unsetenv("FI_TCP_ZEROCOPY_SIZE");
	unsetenv("FI_EFA_MTU_SIZE");
	assert_int_equal(d->num_findings, 1);
	rig_is(d, "environment", KV_FAIL, "is set to 4096", "unset FI_TCP_ZEROCOPY_SIZE");
}

static void harmless_values_are_not_named(void **state)
{
	struct doctor *d = *state;
	setenv("FI_OFI_RXM_DATA_AUTO_PROGRESS", "0", 1);
	doctor_environment(d);
	unsetenv("FI_OFI_RXM_DATA_AUTO_PROGRESS");
	assert_int_equal(d->num_findings, 0);
}

/* ---- the network, and advice ---- */

static void net(const char *name, const char *state, const char *speed, const char *mtu)
{
	char path[96];
	snprintf(path, sizeof(path), "/sys/class/net/%s/operstate", name);
	tree_put(path, state);
	snprintf(path, sizeof(path), "/sys/class/net/%s/speed", name);
	tree_put(path, speed);
	snprintf(path, sizeof(path), "/sys/class/net/%s/mtu", name);
	tree_put(path, mtu);
}

static void the_network_is_read(void **state)
{
	struct doctor *d = *state;
	net("eth10", "up\n", "100000\n", "1500\n");
	net("eth2", "down\n", "-1\n", "1500\n");
	tree_put("/sys/class/net/bonding_masters", "");
	tree_put("/proc/sys/net/ipv4/tcp_congestion_control", "bbr\n");
	tree_put("/proc/sys/net/ipv4/tcp_wmem", "4096\t16384\t4194304\n");
	doctor_network(d);
	assert_int_equal(d->num_netdevs, 2);
	assert_string_equal(d->netdev[0].name, "eth2");
	assert_false(d->netdev[0].up);
	assert_int_equal(d->netdev[0].speed_mbps, -1);
	assert_true(d->netdev[1].up);
	assert_int_equal(d->netdev[1].speed_mbps, 100000);
	assert_string_equal(d->congestion, "bbr");
	assert_true(d->wmem_max == 4 << 20);
	assert_true(d->rmem_max == KV_UNKNOWN);
}

/* The run goes over eth0 to another host. */
static void abroad(struct doctor *d)
{
	static char server[] = "10.0.0.9:7411";
	struct doctor_options *o = rig_options(d);
	o->servers.count = 1;
	o->servers.item[0] = server;
	snprintf(d->client.budget.device[0].device.local, KV_NAME_MAX, "10.0.0.1");
}

static void a_fast_network_gets_advice(void **state)
{
	struct doctor *d = *state;
	net("eth0", "up\n", "100000\n", "1500\n");
	tree_put("/proc/sys/net/ipv4/tcp_congestion_control", "bbr\n");
	tree_put("/proc/sys/net/ipv4/tcp_available_congestion_control", "reno cubic bbr\n");
	tree_put("/proc/sys/net/ipv4/tcp_wmem", "4096\t16384\t4194304\n");
	tree_put("/proc/sys/net/ipv4/tcp_rmem", "4096\t131072\t6291456\n");
	abroad(d);
	doctor_network(d);
	doctor_advise(d);
	rig_is(d, "mtu", KV_INFO, "1500 at 100 Gb/s", "mtu 9001");
	rig_is(d, "socket_buffers", KV_INFO, "round trip of 251 us", "net.ipv4.tcp_wmem");
	rig_is(d, "congestion", KV_INFO, "paces every segment", "tcp_congestion_control=cubic");
	rig_is(d, "congestion", KV_INFO, "", "tc qdisc replace dev DEV root fq");
	assert_null(rig_finding(d, "one_host"));
	assert_int_equal(doctor_worst(d), KV_OK); /* advice is no warning */
}

static void what_is_set_already_is_not_advised(void **state)
{
	struct doctor *d = *state;
	net("eth0", "up\n", "2500\n", "1500\n");
	tree_put("/proc/sys/net/ipv4/tcp_congestion_control", "bbr\n");
	tree_put("/proc/sys/net/core/default_qdisc", "fq\n");
	tree_put("/proc/sys/net/ipv4/tcp_wmem", "4096\t16384\t65536\n");
	tree_put("/proc/sys/net/ipv4/tcp_rmem", "4096\t131072\t6291456\n");
	abroad(d);
	doctor_network(d);
	doctor_advise(d);
	rig_is(d, "congestion", KV_INFO, "qdisc fq, the default here", "tcp_congestion_control=reno");
	assert_null(strstr(rig_finding(d, "congestion")->remedy, "qdisc"));
	rig_is(d, "socket_buffers", KV_INFO, "full speed (2500 Mb/s)", "net.ipv4.tcp_wmem");
}

static void nothing_is_advised_where_nothing_is_to_be_had(void **state)
{
	struct doctor *d = *state;
	net("eth0", "up\n", "10000\n", "9001\n");
	tree_put("/proc/sys/net/ipv4/tcp_congestion_control", "cubic\n");
	tree_put("/proc/sys/net/ipv4/tcp_wmem", "4096\t16384\t4194304\n");
	tree_put("/proc/sys/net/ipv4/tcp_rmem", "4096\t131072\t33554432\n");
	abroad(d);
	doctor_network(d);
	doctor_advise(d);
	assert_int_equal(d->num_findings, 0);
}

static void one_host_gets_advice(void **state)
{
	struct doctor *d = *state;
	tree_put("/proc/sys/net/ipv4/tcp_congestion_control", "bbr\n");
	tree_put("/sys/kernel/mm/transparent_hugepage/enabled", "always madvise [never]\n");
	doctor_network(d);
	doctor_advise(d);
	rig_is(d, "one_host", KV_INFO, "clients on a server's host", "");
	rig_is(d, "congestion", KV_INFO, "GETs are not affected", "if PUTs matter");
	rig_is(d, "transparent_hugepage", KV_INFO, "off", "echo madvise");
	assert_null(rig_finding(d, "mtu"));
}

/* ---- the trial ---- */

static void nothing_is_tried_when_told_so(void **state)
{
	struct doctor *d = *state;
	d->root = "";
	rig_options(d)->no_try = true;
	doctor_try(d);
	rig_is(d, "try", KV_INFO, "--no-try", "");
	assert_false(d->tried_client.done);
}

/* The child is this program with the child's arguments: what it makes of them is in main. */
static void a_child_that_dies_is_told(void **state)
{
	struct doctor *d = *state;
	d->root = "";
	d->server.present = false;
	d->client.options.provider = "dies";
	doctor_try(d);
	rig_is(d, "try", KV_FAIL,
	       "1 of 4 engines opened; the process of the trial was "
	       "ended by signal 6 (Aborted) (its last words: a last word)",
	       "");
}

static void an_error_of_the_child_is_told(void **state)
{
	struct doctor *d = *state;
	d->root = "";
	d->server.present = false;
	d->client.options.provider = "errs";
	doctor_try(d);
	rig_is(d, "try", KV_FAIL, "4 of 4 engines opened; fi_enable on lo (tcp): it did not work", "");
	assert_null(rig_finding(d, "door")); /* nobody asked an engine */
}

static void memory_of_the_parent_is_read(void **state)
{
	(void)state;
	int error = doctor_memory_try();
	assert_true(error >= 0);
	if (error == 0)
		return;
	print_message("it may not be read here: %s\n", kv_strerror(-error));
	assert_true(error == EPERM || error == ENOSYS);
}

static void a_child_without_a_word_is_told(void **state)
{
	struct doctor *d = *state;
	d->root = "";
	d->server.present = false;
	d->client.options.provider = "silent";
	doctor_try(d);
	rig_is(d, "try", KV_FAIL, "ended with status 7 before it was done", "");
}

static void a_child_that_works_is_told(void **state)
{
	struct doctor *d = *state;
	d->root = "";
	d->client.options.provider = d->server.options.provider = "works";
	doctor_try(d);
	rig_is(d, "try", KV_OK, "4 endpoints opened in 1.00 ms", "");
	rig_is(d, "door", KV_OK, "strangers are refused", "");
	assert_int_equal(doctor_count(d, KV_OK), 3);
}

static void fabric_ports_without_a_doorkeeper_are_told_with_the_reason(void **state)
{
	struct doctor *d = *state;
	d->root = "";
	d->server.present = false;
	d->client.options.provider = "doorless";
	doctor_try(d);
	rig_is(d, "door", KV_WARN, "they have no doorkeeper: its door is elsewhere", "security.md");
}

/* ---- options ---- */

static int parse(const char *a, const char *b, struct doctor_options *out, struct kv_error *err)
{
	char *argv[] = {(char *)(uintptr_t)"kv-doctor", (char *)(uintptr_t)a, (char *)(uintptr_t)b, NULL};
	return doctor_options_parse(b ? 3 : a ? 2 : 1, argv, out, err);
}

static void options_are_those_of_kv_bench(void **state)
{
	struct doctor_options o;
	struct kv_error err = {0};
	(void)state;
	assert_int_equal(parse(NULL, NULL, &o, &err), 0);
	assert_int_equal(o.num_workers, 16);
	assert_int_equal(o.num_clients, 4);
	assert_int_equal(o.buffer_mb, 64);
	assert_string_equal(o.provider, "auto");
	assert_int_equal(parse("--server-shards", "3", &o, &err), 0);
	assert_int_equal(o.server_threads, 3);
	assert_int_equal(parse("--num-clients", "0", &o, &err), -KV_EINVAL);
	assert_int_equal(parse("--server", ":::", &o, &err), -KV_EINVAL);
	assert_int_equal(parse("--sysroot", "", &o, &err), -KV_EINVAL);
}

static int child(int argc, char **argv)
{
	struct try_args args;
	if (argc == 3)
		return try_child(argc - 2, argv + 2);
	int fd = atoi(argv[2]);
	assert_int_equal(probe_take(atoi(argv[3]), &args, sizeof(args)), sizeof(args));
	const char *kind = args.provider;
	struct trial t = {.opened = strcmp(kind, "dies") == 0 ? 1 : args.engines};
	probe_report(fd, &t, sizeof(t));
	if (strcmp(kind, "dies") == 0) {
		fputs("a last word\n", stderr);
		abort();
	}
	if (strcmp(kind, "silent") == 0)
		return 7;
	if (strcmp(kind, "doorless") == 0)
		snprintf(t.no_door, sizeof(t.no_door), "its door is elsewhere");
	if (strcmp(kind, "errs") == 0)
		snprintf(t.error, sizeof(t.error), "fi_enable on lo (tcp): it did not work");
	t.open_ns = 1000000;
	t.register_ns = t.ping_ns = 1000;
	t.registered_bytes = t.bytes = 1 << 20;
	t.moved = t.done = true;
	t.looked = !t.error[0];
	probe_report(fd, &t, sizeof(t));
	return 0;
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(an_empty_machine_has_nothing_to_say_of_devices, made_up, gone),
		cmocka_unit_test_setup_teardown(an_efa_device_without_its_driver_is_told, made_up, gone),
		cmocka_unit_test_setup_teardown(a_mellanox_nic_without_rdma_is_told, made_up, gone),
		cmocka_unit_test_setup_teardown(a_port_that_is_down_is_told, made_up, gone),
		cmocka_unit_test_setup_teardown(an_efa_port_is_no_cable, made_up, gone),
		cmocka_unit_test_setup_teardown(two_addresses_of_a_device_are_two, made_up, gone),
		cmocka_unit_test_setup_teardown(an_infiniband_port_asks_for_a_subnet_manager, made_up, gone),
		cmocka_unit_test_setup_teardown(modules_of_efa_without_the_installer_are_told, made_up, gone),
		cmocka_unit_test_setup_teardown(settings_that_hurt_are_named, made_up, gone),
		cmocka_unit_test_setup_teardown(harmless_values_are_not_named, made_up, gone),
		cmocka_unit_test_setup_teardown(the_network_is_read, made_up, gone),
		cmocka_unit_test_setup_teardown(a_fast_network_gets_advice, made_up, gone),
		cmocka_unit_test_setup_teardown(what_is_set_already_is_not_advised, made_up, gone),
		cmocka_unit_test_setup_teardown(nothing_is_advised_where_nothing_is_to_be_had, made_up, gone),
		cmocka_unit_test_setup_teardown(one_host_gets_advice, made_up, gone),
		cmocka_unit_test_setup_teardown(an_error_of_the_child_is_told, made_up, gone),
		cmocka_unit_test_setup_teardown(nothing_is_tried_when_told_so, made_up, gone),
		cmocka_unit_test_setup_teardown(a_child_that_dies_is_told, made_up, gone),
		cmocka_unit_test_setup_teardown(a_child_without_a_word_is_told, made_up, gone),
		cmocka_unit_test_setup_teardown(a_child_that_works_is_told, made_up, gone),
		cmocka_unit_test_setup_teardown(fabric_ports_without_a_doorkeeper_are_told_with_the_reason, made_up,
						gone),
		cmocka_unit_test(memory_of_the_parent_is_read),
		cmocka_unit_test(options_are_those_of_kv_bench),
	};
	te_env_for_programs(); /* in the child, too: psm's handlers would follow the abort with a crash of their own */
	if (argc > 2 && strcmp(argv[1], TRY_CHILD) == 0)
		return child(argc, argv);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
