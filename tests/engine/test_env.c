/* SPDX-License-Identifier: Apache-2.0 */
/* test_env.c -- the environment that our programs choose: sizes that fit a device, what the user set, and what a
 * program that started us had set. */
#include "tests/engine/node.h"

#include "engine/env.h"

enum { SOFT_ROCE = 32767, CONNECTX = 4194303 };

static void fits(struct te_rxm r, uint64_t most, uint64_t rx, uint64_t tx, uint64_t peers)
{
	te_rxm_fit(&r, most);
	assert_int_equal(r.rx, rx);
	assert_int_equal(r.tx, tx);
	assert_int_equal(r.peers, peers);
}

static void what_fits_is_left(void **state)
{
	(void)state;
	fits((struct te_rxm){.rx = 128, .tx = 128, .peers = 256}, CONNECTX, 128, 128, 256);
	fits((struct te_rxm){.rx = 128, .tx = 128, .peers = 256}, 65536, 128, 128, 256);
}

static void depth_goes_before_peers_and_a_few_peers_before_half_the_depth(void **state)
{
	(void)state;
	fits((struct te_rxm){.rx = 128, .tx = 128, .peers = 256}, SOFT_ROCE, 64, 64, 255);
	fits((struct te_rxm){.rx = 128, .tx = 128, .peers = 256}, 65535, 128, 128, 255);
	fits((struct te_rxm){.rx = 128, .tx = 128, .peers = 1024}, SOFT_ROCE, 16, 16, 1023);
	fits((struct te_rxm){.rx = 128, .tx = 128, .peers = 4096}, SOFT_ROCE, 16, 16, 1023);
	fits((struct te_rxm){.rx = 128, .tx = 128, .peers = 256}, 10, 16, 16, 1); /* not even one: the check says so */
}

static void what_the_user_chose_stays(void **state)
{
	(void)state;
	fits((struct te_rxm){.rx = 1024, .tx = 128, .peers = 256, .rx_fixed = true}, SOFT_ROCE, 1024, 16, 31);
	fits((struct te_rxm){.rx = 128, .tx = 128, .peers = 500, .peers_fixed = true}, SOFT_ROCE, 32, 32, 500);
	fits(
		(struct te_rxm){
			.rx = 1024, .tx = 256, .peers = 1024, .rx_fixed = true, .tx_fixed = true, .peers_fixed = true},
		SOFT_ROCE, 1024, 256, 1024);
}

/* A program of ours that started this one had a variable set; the user another. */
static void what_a_parent_of_ours_set_is_chosen_anew(void **state)
{
	(void)state;
	assert_string_not_equal(getenv("FI_UNIVERSE_SIZE"), "3");    /* the parent's */
	assert_string_equal(getenv("FI_OFI_RXM_MSG_TX_SIZE"), "77"); /* the user's */
	assert_string_equal(getenv("FI_OFI_RXM_MSG_RX_SIZE"),
			    "33"); /* a name that is part of one in the list is not in it */
	assert_non_null(
		strstr(getenv("KVRAIL_ENV"), "FI_UNIVERSE_SIZE")); /* ours again, for the programs that we start */
	assert_null(strstr(getenv("KVRAIL_ENV"), "FI_OFI_RXM_MSG_TX_SIZE"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_fits_is_left),
		cmocka_unit_test(depth_goes_before_peers_and_a_few_peers_before_half_the_depth),
		cmocka_unit_test(what_the_user_chose_stays),
		cmocka_unit_test(what_a_parent_of_ours_set_is_chosen_anew),
	};
	setenv("KVRAIL_ENV", "XFI_OFI_RXM_MSG_RX_SIZE,FI_UNIVERSE_SIZE,FI_OFI_RXM_MSG_RX_SIZEX", 1);
	setenv("FI_UNIVERSE_SIZE", "3", 1);
	setenv("FI_OFI_RXM_MSG_TX_SIZE", "77", 1);
	setenv("FI_OFI_RXM_MSG_RX_SIZE", "33", 1);
	te_env_for_programs();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
