/* SPDX-License-Identifier: Apache-2.0 */
/* test_report.c -- findings, the verdict, the text and the JSON. */
#include "tests/kvdoctor/rig.h"

#include <jansson.h>
#include <stdlib.h>
#include <unistd.h>

static void nothing_found_is_ok(void **state)
{
	struct doctor *d = *state;
	assert_int_equal(doctor_worst(d), KV_OK);
	char *text = rig_text(d);
	assert_non_null(strstr(text, "\nverdict: ok\n"));
	free(text);
}

static void the_worst_finding_is_the_verdict(void **state)
{
	struct doctor *d = *state;
	doctor_found(d, SECTION_RUN, KV_OK, "files", "kv-bench", "open files", "fine");
	doctor_found(d, SECTION_RUN, KV_INFO, "hugepages", "machine", "huge pages", "none");
	assert_int_equal(doctor_worst(d), KV_OK);
	doctor_found(d, SECTION_RUN, KV_WARN, "cpus", "machine", "CPUs", "few");
	assert_int_equal(doctor_worst(d), KV_WARN);
	doctor_found(d, SECTION_RUN, KV_FAIL, "memlock", "kv-bench", "locked memory", "short");
	assert_int_equal(doctor_worst(d), KV_FAIL);
	assert_int_equal(doctor_count(d, KV_WARN), 1);
	assert_string_equal(doctor_status_name(KV_FAIL), "fails");
}

static void the_verdict_names_the_problems_at_the_end(void **state)
{
	struct doctor *d = *state;
	doctor_found(d, SECTION_RUN, KV_FAIL, "memlock", "kv-bench", "locked memory", "needs 300 MiB, 8 MiB allowed");
	doctor_remedy(d, "`ulimit -l unlimited`");
	doctor_found(d, SECTION_RUN, KV_WARN, "cpus", "machine", "CPUs", "few");
	char *text = rig_text(d);
	assert_non_null(strstr(text, "  FAIL  kv-bench: locked memory     needs 300 MiB, 8 MiB allowed\n        fix: "
				     "`ulimit -l unlimited`\n"));
	const char *end = "verdict: FAILS, the run would not work (1 problem, 1 warning): kv-bench locked memory\n";
	assert_string_equal(text + strlen(text) - strlen(end), end);
	free(text);
}

static void quiet_is_problems_and_the_verdict(void **state)
{
	struct doctor *d = *state;
	rig_options(d)->quiet = true;
	doctor_found(d, SECTION_RUN, KV_OK, "files", "kv-bench", "open files", "fine");
	doctor_found(d, SECTION_RUN, KV_WARN, "cpus", "machine", "CPUs", "few");
	char *text = rig_text(d);
	assert_string_equal(
		text,
		"  WARN  machine: CPUs               few\nverdict: ok, with warnings (1 warning): machine CPUs\n");
	free(text);
}

static void lines_are_broken_at_words(void **state)
{
	struct doctor *d = *state;
	char words[60 * 5 + 1] = "";
	for (int i = 0; i < 60; i++)
		strcat(words, "word ");
	doctor_found(d, SECTION_RUN, KV_WARN, "x", "", "name", "%s", words);
	char *text = rig_text(d), *save = NULL;
	for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
		assert_in_range(strlen(line), 0, 119);
		if (line[0] == ' ' && strstr(line, "word"))
			assert_int_not_equal(line[strlen(line) - 1], ' ');
	}
	free(text);
}

static void devices_that_are_alike_share_a_line(void **state)
{
	struct doctor *d = *state;
	rig_options(d)->quiet = true;
	for (unsigned i = 0; i < 32; i++) {
		char name[16];
		snprintf(name, sizeof(name), "rdmap%us0", i);
		doctor_found(d, SECTION_RUN, KV_FAIL, "qps", name, "queue pairs", "needs %u, 1 allowed",
			     i == 7 ? 3 : 2);
		doctor_remedy(d, "less");
	}
	char *text = rig_text(d);
	assert_string_equal(
		text,
		"  FAIL  rdmap0s0 +30: queue pairs   needs 2, 1 allowed\n        fix: less\n"
		"  FAIL  rdmap7s0: queue pairs       needs 3, 1 allowed\n        fix: less\n"
		"verdict: FAILS, the run would not work (32 problems): rdmap0s0 queue pairs, rdmap1s0 queue pairs, "
		"rdmap2s0 queue pairs, rdmap3s0 queue pairs, rdmap4s0 queue pairs, rdmap5s0 queue pairs and 26 more\n");
	free(text);
}

static void a_list_that_is_full_keeps_the_verdict(void **state)
{
	struct doctor *d = *state;
	for (unsigned i = 0; i < FINDINGS_MAX; i++)
		doctor_found(d, SECTION_RUN, KV_OK, "x", "", "x", "%u", i);
	doctor_found(d, SECTION_RUN, KV_FAIL, "y", "", "y", "bad");
	doctor_found(d, SECTION_RUN, KV_OK, "z", "", "z", "fine");
	assert_int_equal(d->num_findings, FINDINGS_MAX);
	assert_int_equal(doctor_worst(d), KV_FAIL);
}

static void a_run_has_a_table(void **state)
{
	struct doctor *d = *state;
	char *text = rig_text(d);
	assert_non_null(strstr(text, "                                 kv-bench      kv-server\n"));
	assert_non_null(strstr(text, "  endpoints                             4              2\n"));
	assert_non_null(strstr(text, "  registered memory               256 MiB        128 MiB\n"));
	assert_null(strstr(text, "queue pairs")); /* tcp has none */
	free(text);
	d->server.present = false;
	text = rig_text(d);
	assert_null(strstr(text, "kv-server\n"));
	free(text);
}

/* ---- JSON ---- */

static json_t *report_of(const struct doctor *d)
{
	char path[] = "/tmp/kvrail-doctor-XXXXXX";
	struct kv_error err = {0};
	int fd = mkstemp(path);
	assert_true(fd >= 0);
	close(fd);
	if (json_print(d, path, &err))
		fail_msg("%s", err.text);
	json_t *j = json_load_file(path, 0, NULL);
	unlink(path);
	assert_non_null(j);
	return j;
}

static void the_schema_has_its_names(void **state)
{
	static const char *const names[] = {"schema",       "version", "verdict",   "works", "machine", "libraries",
					    "rdma_devices", "network", "providers", "run",   "try",     "findings"};
	struct doctor *d = *state;
	json_t *j = report_of(d);
	for (unsigned i = 0; i < KV_COUNT(names); i++)
		if (!json_object_get(j, names[i]))
			fail_msg("the report has no %s", names[i]);
	assert_int_equal(json_object_size(j), KV_COUNT(names));
	assert_string_equal(json_string_value(json_object_get(j, "schema")), "kvdoctor/1");
	assert_string_equal(json_string_value(json_object_get(j, "verdict")), "ok");
	json_decref(j);
}

static void a_finding_has_its_fields(void **state)
{
	struct doctor *d = *state;
	struct kv_verdict v = {.id = "memlock",
			       .name = "locked memory",
			       .unit = "bytes",
			       .status = KV_FAIL,
			       .need = 300 << 20,
			       .have = KV_NO_LIMIT,
			       .text = "short",
			       .remedy = "more"};
	doctor_verdict(d, SECTION_RUN, "kv-bench", &v);
	json_t *j = report_of(d), *f = json_array_get(json_object_get(j, "findings"), 0);
	assert_int_equal(json_object_size(f), 10);
	assert_string_equal(json_string_value(json_object_get(f, "section")), "run");
	assert_string_equal(json_string_value(json_object_get(f, "id")), "memlock");
	assert_string_equal(json_string_value(json_object_get(f, "subject")), "kv-bench");
	assert_string_equal(json_string_value(json_object_get(f, "status")), "fails");
	assert_string_equal(json_string_value(json_object_get(f, "remedy")), "more");
	assert_int_equal(json_integer_value(json_object_get(f, "need")), 300 << 20);
	assert_true(json_is_null(json_object_get(f, "have")));
	assert_true(json_is_false(json_object_get(j, "works")));
	json_decref(j);
}

static void devices_are_in_it(void **state)
{
	struct doctor *d = *state;
	d->num_rdma = 1;
	d->rdma[0] = (struct te_rdma){.name = "rdmap79s0",
				      .driver = "efa",
				      .efa = true,
				      .efadv = true,
				      .numa_node = -1,
				      .num_ports = 1,
				      .efa_caps = TE_EFA_READ | TE_EFA_WRITE,
				      .efa_rdma_bytes_max = 1 << 30,
				      .qp_max = 256,
				      .qp_used = KV_UNKNOWN,
				      .port = {{.number = 1, .state = "ACTIVE", .active = true}}};
	json_t *j = report_of(d), *r = json_array_get(json_object_get(j, "rdma_devices"), 0);
	assert_string_equal(json_string_value(json_object_get(r, "name")), "rdmap79s0");
	assert_int_equal(json_integer_value(json_object_get(r, "qp_max")), 256);
	assert_true(json_is_null(json_object_get(r, "qp_in_use")));
	assert_true(json_is_null(json_object_get(r, "numa_node")));
	assert_true(json_is_true(json_object_get(json_object_get(r, "efa"), "rdma_write")));
	assert_true(json_is_false(json_object_get(json_object_get(r, "efa"), "unsolicited_write_receive")));
	assert_true(json_is_true(json_object_get(json_array_get(json_object_get(r, "ports"), 0), "active")));
	json_decref(j);
	char *text = rig_text(d);
	assert_non_null(strstr(text, "rdmap79s0"));
	assert_non_null(strstr(text, "queue pairs in use: ?"));
	assert_non_null(strstr(text, "RDMA of 1 GiB"));
	free(text);
}

static void bytes_that_are_no_text_are_null(void **state)
{
	struct doctor *d = *state;
	snprintf(d->host.system, sizeof(d->host.system), "\xff\xfe");
	json_t *j = report_of(d);
	assert_true(json_is_null(json_object_get(json_object_get(j, "machine"), "system")));
	json_decref(j);
}

static void a_run_without_a_provider_is_null(void **state)
{
	struct doctor *d = *state;
	d->client.rc = -KV_ENOTSUP;
	json_t *j = report_of(d), *run = json_object_get(j, "run");
	assert_true(json_is_null(json_object_get(run, "provider")));
	assert_true(json_is_null(json_object_get(run, "client")));
	assert_true(json_is_null(json_object_get(json_object_get(j, "try"), "client")));
	json_decref(j);
	char *text = rig_text(d);
	assert_null(strstr(text, "registered memory"));
	free(text);
}

static void a_file_that_cannot_be_written_is_an_error(void **state)
{
	struct kv_error err = {0};
	assert_true(json_print(*state, "/nonexistent/dir/x.json", &err) < 0);
	assert_non_null(strstr(err.text, "/nonexistent/dir/x.json cannot be written"));
	assert_true(json_print(*state, "/dev/full", &err) < 0);
	assert_non_null(strstr(err.text, "/dev/full cannot be written"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(nothing_found_is_ok, rig_make, rig_remove),
		cmocka_unit_test_setup_teardown(the_worst_finding_is_the_verdict, rig_make, rig_remove),
		cmocka_unit_test_setup_teardown(the_verdict_names_the_problems_at_the_end, rig_make, rig_remove),
		cmocka_unit_test_setup_teardown(quiet_is_problems_and_the_verdict, rig_make, rig_remove),
		cmocka_unit_test_setup_teardown(lines_are_broken_at_words, rig_make, rig_remove),
		cmocka_unit_test_setup_teardown(devices_that_are_alike_share_a_line, rig_make, rig_remove),
		cmocka_unit_test_setup_teardown(a_list_that_is_full_keeps_the_verdict, rig_make, rig_remove),
		cmocka_unit_test_setup_teardown(a_run_has_a_table, rig_make, rig_remove),
		cmocka_unit_test_setup_teardown(the_schema_has_its_names, rig_make, rig_remove),
		cmocka_unit_test_setup_teardown(a_finding_has_its_fields, rig_make, rig_remove),
		cmocka_unit_test_setup_teardown(devices_are_in_it, rig_make, rig_remove),
		cmocka_unit_test_setup_teardown(bytes_that_are_no_text_are_null, rig_make, rig_remove),
		cmocka_unit_test_setup_teardown(a_run_without_a_provider_is_null, rig_make, rig_remove),
		cmocka_unit_test_setup_teardown(a_file_that_cannot_be_written_is_an_error, rig_make, rig_remove),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
