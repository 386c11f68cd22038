/* SPDX-License-Identifier: Apache-2.0 */
/* golden.c -- the bytes of every record and control message, as hex.
 *
 * The hex came from a script written from the text of wire.h alone, not from the encoder: it is a second opinion on the
 * layout. A change here is a change of the protocol, and needs a new WIRE_VERSION once there has been a release. */
#include "samples.h"

#define BYTES(s) {(const uint8_t *)(s), sizeof(s) - 1}
#define ID       0x1122334455667788
#define NEVER    UINT32_MAX
#define NONCE_64 0x1817161514131211
#define DEST     .dest = {.region = 7, .count = 3, .offset = 0x1000, .stride = 0x2000, .slice = 0x400}
#define HOST     "0123456789:;<=>?"
#define NONCE_A  " !\"#$%&'()*+,-./0123456789:;<=>?"
#define NONCE_B  "@ABCDEFGHIJKLMNOPQRSTUVWXYZ[\\]^_"

const struct wire_frame golden_frame = {
	.session = 0x01020304,
	.mark = 0x0a0b0c0d,
	.counter = 0x0102030405060708,
	.tag = {0xa0, 0xa1, 0xa2, 0xa3, 0xa4, 0xa5, 0xa6, 0xa7, 0xa8, 0xa9, 0xaa, 0xab, 0xac, 0xad, 0xae, 0xaf},
	.link = 5,
	.shard = 9,
	.records = 1,
};

static const uint8_t digests[] = {0x08, 0x07, 0x06, 0x05, 0x04, 0x03, 0x02, 0x01, 0x18, 0x17, 0x16, 0x15,
				  0x14, 0x13, 0x12, 0x11, 0,    0,    0,    0,    0,    0,    0,    0x80};
static const uint8_t one_tomb[16] = {0x1d, 0, 0, 0, 0, 0, 0, 0, 0xa6, 0xe0};
static const uint8_t one_space[120] = {4,    [8] = 'c', 'h',         'a',         't',       [72] = 0xd0,
				       0x5a, [80] = 3,  [89] = 0x30, [96] = 0x50, [104] = 9, [112] = 7};
static const uint8_t one_tenant[192] = {
	[0] = 0x04,   [4] = 0x01,   [8] = 0x61,   [9] = 0x63,   [10] = 0x6d,  [11] = 0x65,  [73] = 0x30,
	[81] = 0x40,  [88] = 0xff,  [89] = 0xff,  [90] = 0xff,  [91] = 0xff,  [92] = 0xff,  [93] = 0xff,
	[94] = 0xff,  [95] = 0xff,  [96] = 0x50,  [104] = 0x60, [112] = 0x70, [120] = 0x80, [128] = 0x09,
	[136] = 0x0a, [145] = 0xb0, [153] = 0xc0, [160] = 0x0d, [168] = 0x0e, [176] = 0x0f, [184] = 0x10};

static const uint8_t one_holder[120] = {
	[0] = 0x04,  [8] = 0x61,  [9] = 0x63,  [10] = 0x6d, [11] = 0x65,  [72] = 0x77, [80] = 0x02,
	[82] = 0x01, [88] = 0x67, [89] = 0x12, [96] = 0x03, [105] = 0x30, [113] = 0x50};
static const uint8_t pairs[] = "\x06\0\0\0\0\0\0\0\xe8\x03\0\0\0\0\0\0"
			       "\x20\0\0\0\0\0\0\0\0\0\0\0\0\x01\0\0";
static const uint8_t leases[] = "\x01\0\0\0\x02\0\0\0"
				"\x22\x22\x22\x22\x11\x11\x11\x11"
				"\x10\x32\x54\x76\x98\xba\xdc\xfe";
static const uint8_t bitmap[] = {0xb3, 0x05};
static const uint8_t addrs[] = "\x04\0\x10\x10\x10\x10"
			       "\x05\0\x11\x11\x11\x11\x11"
			       "\x06\0\x12\x12\x12\x12\x12\x12"
			       "\x07\0\x13\x13\x13\x13\x13\x13\x13";
static const uint8_t table[] = "\0\0\0\x10\0\0\0\0\x00\xef\xbe\0\0\0\0\0"
			       "\0\0\x20\x10\0\0\0\0\x01\xef\xbe\0\0\0\0\0"
			       "\0\0\x40\x10\0\0\0\0\x02\xef\xbe\0\0\0\0\0"
			       "\0\0\0\x20\0\0\0\0\x10\xef\xbe\0\0\0\0\0"
			       "\0\0\x20\x20\0\0\0\0\x11\xef\xbe\0\0\0\0\0"
			       "\0\0\x40\x20\0\0\0\0\x12\xef\xbe\0\0\0\0\0";

const struct golden_request golden_requests[] = {
	{"get",
	 "4b52050504030201a0a1a2a3a4a5a6a7a8a9aaabacadaeaf800001090d0c0b0a"
	 "08070605040302010103580040420f0088776655443322110001000000000000"
	 "000c000000000000990000000000000003000200050000000700000003000000"
	 "0010000000000000002000000000000000040000000000006b65792d31000000",
	 {.type = WIRE_GET,
	  .flags = WIRE_GET_SUM_RANGE | WIRE_GET_INLINE,
	  .time_left_us = 1000000,
	  .id = ID,
	  .key = BYTES("key-1"),
	  DEST,
	  .get = {.offset = 0x100, .length = 0xc00, .generation = 0x99, .imm = 0x00020003}}},
	{"get_more",
	 "4b52050504030201a0a1a2a3a4a5a6a7a8a9aaabacadaeaf800001090d0c0b0a"
	 "08070605040302010141580040420f0088776655443322110001000000000000"
	 "0000000000000000000000000000000003000200050000000700000003000000"
	 "0010000000000000002000000000000000040000000000006b65792d31000000",
	 {.type = WIRE_GET,
	  .flags = WIRE_GET_SUM_RANGE | WIRE_GET_MORE,
	  .time_left_us = 1000000,
	  .id = ID,
	  .key = BYTES("key-1"),
	  DEST,
	  .get = {.offset = 0x100, .imm = 0x00020003}}},
	{"get_length",
	 "4b52050504030201a0a1a2a3a4a5a6a7a8a9aaabacadaeaf800001090d0c0b0a"
	 "080706050403020101005800ffffffff01000000000000000000000000000000"
	 "0000000000000000000000000000000000000000010000000000000000000000"
	 "0000000000000000000000000000000000000000000000006b00000000000000",
	 {.type = WIRE_GET, .time_left_us = NEVER, .id = 1, .key = BYTES("k")}},
	{"put_read",
	 "4b52050504030201a0a1a2a3a4a5a6a7a8a9aaabacadaeaf980001090d0c0b0a"
	 "0807060504030201020170008813000089776655443322110020000000000000"
	 "0000000000000000000c0000000000001032547698badcfe0000000000000000"
	 "00000000000000003c0000000500000007000000030000000010000000000000"
	 "002000000000000000040000000000006b65792d32000000",
	 {.type = WIRE_PUT,
	  .flags = WIRE_PUT_FIRST,
	  .time_left_us = 5000,
	  .id = ID + 1,
	  .key = BYTES("key-2"),
	  DEST,
	  .put = {.total = 0x2000, .length = 0xc00, .checksum = 0xfedcba9876543210, .ttl_s = 60}}},
	{"put_sum_last",
	 "4b52050504030201a0a1a2a3a4a5a6a7a8a9aaabacadaeaf980001090d0c0b0a"
	 "0807060504030201022170008813000089776655443322110020000000000000"
	 "0000000000000000000c00000000000000000000000000000000000000000000"
	 "00000000000000003c0000000500000007000000030000000010000000000000"
	 "002000000000000000040000000000006b65792d32000000",
	 {.type = WIRE_PUT,
	  .flags = WIRE_PUT_FIRST | WIRE_PUT_SUM_LAST,
	  .time_left_us = 5000,
	  .id = ID + 1,
	  .key = BYTES("key-2"),
	  DEST,
	  .put = {.total = 0x2000, .length = 0xc00, .ttl_s = 60}}},
	{"put_inline",
	 "4b52050504030201a0a1a2a3a4a5a6a7a8a9aaabacadaeafa00001090d0c0b0a"
	 "080706050403020102037800881300008a776655443322110600000000000000"
	 "00000000000000000600000000000000efcdab89674523010000000000000000"
	 "ce5a000000000000000000000500060000000000000000000000000000000000"
	 "000000000000000000000000000000006b65792d336162636465660000000000",
	 {.type = WIRE_PUT,
	  .flags = WIRE_PUT_FIRST | WIRE_PUT_LAST,
	  .time_left_us = 5000,
	  .id = ID + 2,
	  .key = BYTES("key-3"),
	  .put = {.total = 6,
		  .length = 6,
		  .checksum = 0x0123456789abcdef,
		  .space = 0x5ace,
		  .inline_data = BYTES("abcdef")}}},
	{"put_last",
	 "4b52050504030201a0a1a2a3a4a5a6a7a8a9aaabacadaeaf980001090d0c0b0a"
	 "080706050403020102027000881300008b776655443322110010000000000000"
	 "000c0000000000000004000000000000efcdab89674523017700000000000000"
	 "0000000000000000000000000800000001000000010000004000000000000000"
	 "000000000000000000040000000000006b65792d666f7572",
	 {.type = WIRE_PUT,
	  .flags = WIRE_PUT_LAST,
	  .time_left_us = 5000,
	  .id = ID + 3,
	  .key = BYTES("key-four"),
	  .dest = {.region = 1, .count = 1, .offset = 64, .slice = 0x400},
	  .put = {.total = 0x1000, .offset = 0xc00, .length = 0x400, .checksum = 0x0123456789abcdef, .stage = 0x77}}},
	{"put_landed",
	 "4b52050504030201a0a1a2a3a4a5a6a7a8a9aaabacadaeaf980001090d0c0b0a"
	 "080706050403020102077000881300008c776655443322110000100000000000"
	 "00000000000000000000100000000000efcdab89674523010000000000000000"
	 "0000000000000000000000000500000000000000010000000020000000000000"
	 "000000000000000000001000000000006b65792d35000000",
	 {.type = WIRE_PUT,
	  .flags = WIRE_PUT_FIRST | WIRE_PUT_LAST | WIRE_PUT_LANDED,
	  .time_left_us = 5000,
	  .id = ID + 4,
	  .key = BYTES("key-5"),
	  .dest = {.count = 1, .offset = 0x2000, .slice = 0x100000},
	  .put = {.total = 0x100000, .length = 0x100000, .checksum = 0x0123456789abcdef}}},
	{"put_copy",
	 "4b52050504030201a0a1a2a3a4a5a6a7a8a9aaabacadaeaf980001090d0c0b0a"
	 "0807060504030201020b7000881300008c776655443322110300000000000000"
	 "00000000000000000300000000000000efcdab8967452301b0b0000000000000"
	 "0000000000000000000000000500030000000000000000000000000000000000"
	 "000000000000000000000000000000006b65792d36616263",
	 {.type = WIRE_PUT,
	  .flags = WIRE_PUT_FIRST | WIRE_PUT_LAST | WIRE_PUT_COPY,
	  .time_left_us = 5000,
	  .id = ID + 4,
	  .key = BYTES("key-6"),
	  .put = {.total = 3,
		  .length = 3,
		  .checksum = 0x0123456789abcdef,
		  .born_ns = 0xb0b0,
		  .inline_data = BYTES("abc")}}},
	{"put_spare",
	 "4b52050504030201a0a1a2a3a4a5a6a7a8a9aaabacadaeaf980001090d0c0b0a"
	 "0807060504030201021b7000881300008c776655443322110300000000000000"
	 "00000000000000000300000000000000efcdab8967452301b0b0000000000000"
	 "0000000000000000000000000500030000000000000000000000000000000000"
	 "000000000000000000000000000000006b65792d36616263",
	 {.type = WIRE_PUT,
	  .flags = WIRE_PUT_FIRST | WIRE_PUT_LAST | WIRE_PUT_COPY | WIRE_PUT_SPARE,
	  .time_left_us = 5000,
	  .id = ID + 4,
	  .key = BYTES("key-6"),
	  .put = {.total = 3,
		  .length = 3,
		  .checksum = 0x0123456789abcdef,
		  .born_ns = 0xb0b0,
		  .inline_data = BYTES("abc")}}},
	{"get_young",
	 "4b52050504030201a0a1a2a3a4a5a6a7a8a9aaabacadaeaf800001090d0c0b0a"
	 "0807060504030201010a5800881300008c776655443322110000000000000000"
	 "0004000000000000b0b000000000000000000000050000000100000001000000"
	 "0000000000000000000000000000000000040000000000006b65792d37000000",
	 {.type = WIRE_GET,
	  .flags = WIRE_GET_INLINE | WIRE_GET_YOUNG,
	  .time_left_us = 5000,
	  .id = ID + 4,
	  .key = BYTES("key-7"),
	  .dest = {.region = 1, .count = 1, .slice = 0x400},
	  .get = {.length = 0x400, .generation = 0xb0b0}}},
	{"exists",
	 "4b52050504030201a0a1a2a3a4a5a6a7a8a9aaabacadaeaf580001090d0c0b0a"
	 "080706050403020103003000ffffffff8c776655443322110300000000000000"
	 "080706050403020118171615141312110000000000000080",
	 {.type = WIRE_EXISTS, .time_left_us = NEVER, .id = ID + 4, .exists = {3, digests}}},
	{"delete",
	 "4b52050504030201a0a1a2a3a4a5a6a7a8a9aaabacadaeaf500001090d0c0b0a"
	 "0807060504030201040028000a0000008d776655443322110300000000000000"
	 "000000000000000064656c0000000000",
	 {.type = WIRE_DELETE, .time_left_us = 10, .id = ID + 5, .key = BYTES("del")}},
	{"delete_at",
	 "4b52050504030201a0a1a2a3a4a5a6a7a8a9aaabacadaeaf500001090d0c0b0a"
	 "0807060504030201040228000a0000008d776655443322110300000000000000"
	 "eda900000000000064656c0000000000",
	 {.type = WIRE_DELETE,
	  .flags = WIRE_DELETE_AT,
	  .time_left_us = 10,
	  .id = ID + 5,
	  .key = BYTES("del"),
	  .drop = {0xa9ed}}},
	{"touch_young",
	 "4b52050504030201a0a1a2a3a4a5a6a7a8a9aaabacadaeaf500001090d0c0b0a"
	 "0807060504030201050628000a0000008e7766554433221105000000100e0000"
	 "b0b0000000000000746f756368000000",
	 {.type = WIRE_TOUCH,
	  .flags = WIRE_TOUCH_MARK | WIRE_TOUCH_YOUNG,
	  .time_left_us = 10,
	  .id = ID + 6,
	  .key = BYTES("touch"),
	  .touch = {3600, 0xb0b0}}},
	{"touch",
	 "4b52050504030201a0a1a2a3a4a5a6a7a8a9aaabacadaeaf500001090d0c0b0a"
	 "0807060504030201050028000a0000008e7766554433221105000000100e0000"
	 "0000000000000000746f756368000000",
	 {.type = WIRE_TOUCH, .time_left_us = 10, .id = ID + 6, .key = BYTES("touch"), .touch = {.ttl_s = 3600}}},
	{"pin",
	 "4b52050504030201a0a1a2a3a4a5a6a7a8a9aaabacadaeaf480001090d0c0b0a"
	 "0807060504030201060020000a0000008f776655443322110800000000000000"
	 "70696e2d74686973",
	 {.type = WIRE_PIN, .time_left_us = 10, .id = ID + 7, .key = BYTES("pin-this")}},
	{"unpin",
	 "4b52050504030201a0a1a2a3a4a5a6a7a8a9aaabacadaeaf500001090d0c0b0a"
	 "0807060504030201060128000a00000090776655443322110900000000000000"
	 "756e70696e2d69742100000000000000",
	 {.type = WIRE_PIN, .flags = WIRE_PIN_RELEASE, .time_left_us = 10, .id = ID + 8, .key = BYTES("unpin-it!")}},
	{"stat",
	 "4b52050504030201a0a1a2a3a4a5a6a7a8a9aaabacadaeaf380001090d0c0b0a"
	 "080706050403020107001000ffffffff9177665544332211",
	 {.type = WIRE_STAT, .time_left_us = NEVER, .id = ID + 9}},
	{"cancel",
	 "4b52050504030201a0a1a2a3a4a5a6a7a8a9aaabacadaeaf400001090d0c0b0a"
	 "08070605040302010800180050c3000092776655443322118877665544332211",
	 {.type = WIRE_CANCEL, .time_left_us = 50000, .id = ID + 10, .cancel = {ID}}},
	{"ping",
	 "4b52050504030201a0a1a2a3a4a5a6a7a8a9aaabacadaeaf400001090d0c0b0a"
	 "080706050403020109001800ffffffff93776655443322110df0fecaefbeadde",
	 {.type = WIRE_PING, .time_left_us = NEVER, .id = ID + 11, .ping = {0xdeadbeefcafef00d}}},
	{"tombs",
	 "4b52050504030201a0a1a2a3a4a5a6a7a8a9aaabacadaeaf400001090d0c0b0a"
	 "08070605040302010a0018000a000000907766554433221104f4000000000000",
	 {.type = WIRE_TOMBS, .time_left_us = 10, .id = ID + 8, .tombs = {0xf404}}},
	{"session",
	 "4b52050504030201a0a1a2a3a4a5a6a7a8a9aaabacadaeaf400001090d0c0b0a"
	 "08070605040302010e0018000000000000000000000000000700010000000000",
	 {.type = WIRE_SESSION, .session = {.number = 0x10007}}},
	{"get_pull",
	 "4b52050504030201a0a1a2a3a4a5a6a7a8a9aaabacadaeaf800001090d0c0b0a"
	 "08070605040302010121580040420f0088776655443322110001000000000000"
	 "000c000000000000000000000000000003000200050000000700000003000000"
	 "0010000000000000002000000000000000040000000000006b65792d31000000",
	 {.type = WIRE_GET,
	  .flags = WIRE_GET_SUM_RANGE | WIRE_GET_PULL,
	  .time_left_us = 1000000,
	  .id = ID,
	  .key = BYTES("key-1"),
	  DEST,
	  .get = {.offset = 0x100, .length = 0xc00, .imm = 0x00020003}}},
	{"release",
	 "4b52050504030201a0a1a2a3a4a5a6a7a8a9aaabacadaeaf580001090d0c0b0a"
	 "08070605040302010f003000ffffffff00000000000000000300000000000000"
	 "010000000200000022222222111111111032547698badcfe",
	 {.type = WIRE_RELEASE, .time_left_us = NEVER, .release = {3, leases}}},
	{"prove",
	 "4b52050504030201a0a1a2a3a4a5a6a7a8a9aaabacadaeaf400001090d0c0b0a"
	 "080706050403020110001800ffffffff00000000000000001112131415161718",
	 {.type = WIRE_PROVE, .time_left_us = NEVER, .prove = {NONCE_64}}},
	{"clear",
	 "4b52050504030201a0a1a2a3a4a5a6a7a8a9aaabacadaeaf400001090d0c0b0a"
	 "08070605040302010b0118000a0000009077665544332211d05a000000000000",
	 {.type = WIRE_CLEAR, .flags = WIRE_CLEAR_RAISE, .time_left_us = 10, .id = ID + 8, .clear = {0x5ad0}}},
	{"spaces",
	 "4b52050504030201a0a1a2a3a4a5a6a7a8a9aaabacadaeaf400001090d0c0b0a"
	 "08070605040302010c0018000a000000907766554433221104f4000000000000",
	 {.type = WIRE_SPACES, .time_left_us = 10, .id = ID + 8, .tombs = {0xf404}}},
	{"tenants",
	 "4b52050504030201a0a1a2a3a4a5a6a7a8a9aaabacadaeaf400001090d0c0b0a"
	 "08070605040302010d0018000a000000907766554433221104f4000000000000",
	 {.type = WIRE_TENANTS, .time_left_us = 10, .id = ID + 8, .tombs = {0xf404}}},
	{"leases",
	 "4b52050504030201a0a1a2a3a4a5a6a7a8a9aaabacadaeaf400001090d0c0b0a"
	 "0807060504030201110018000a000000907766554433221104f4000000000000",
	 {.type = WIRE_LEASES, .time_left_us = 10, .id = ID + 8, .tombs = {0xf404}}},
};
const size_t golden_requests_n = KV_COUNT(golden_requests);

const struct golden_reply golden_replies[] = {
	{"get_pushed",
	 "4b52050504030201a0a1a2a3a4a5a6a7a8a9aaabacadaeaf600001090d0c0b0a"
	 "0807060504030201810138000000000088776655443322114030201080706050"
	 "000010000000000099000000000000001032547698badcfe0300000000000000",
	 {.type = WIRE_GET,
	  .flags = WIRE_GET_SUM_RANGE,
	  .id = ID,
	  .posted_ns = 0x10203040,
	  .replied_ns = 0x50607080,
	  .get = {.value_len = 1 << 20, .generation = 0x99, .checksum = 0xfedcba9876543210, .posted = 3}}},
	{"get_inline",
	 "4b52050504030201a0a1a2a3a4a5a6a7a8a9aaabacadaeaf680001090d0c0b0a"
	 "0807060504030201810240000000000089776655443322114130201081706050"
	 "05000000000000009a00000000000000efcdab89674523010000000005000000"
	 "68656c6c6f000000",
	 {.type = WIRE_GET,
	  .flags = WIRE_GET_INLINE,
	  .id = ID + 1,
	  .posted_ns = 0x10203041,
	  .replied_ns = 0x50607081,
	  .get = {.value_len = 5, .generation = 0x9a, .checksum = 0x0123456789abcdef, .inline_data = BYTES("hello")}}},
	{"get_leased",
	 "4b52050504030201a0a1a2a3a4a5a6a7a8a9aaabacadaeaf780001090d0c0b0a"
	 "0807060504030201816150000000000094776655443322114c3020108c706050"
	 "000010000000000099000000000000001032547698badcfe0000000000000000"
	 "0100000002000000003412000000000040420f0000000000",
	 {.type = WIRE_GET,
	  .flags = WIRE_GET_SUM_RANGE | WIRE_GET_PULL | WIRE_GET_LEASED,
	  .id = ID + 12,
	  .posted_ns = 0x1020304c,
	  .replied_ns = 0x5060708c,
	  .get = {.value_len = 1 << 20,
		  .generation = 0x99,
		  .checksum = 0xfedcba9876543210,
		  .lease = 0x0000000200000001,
		  .at = 0x123400,
		  .lease_us = 1000000}}},
	{"get_hot",
	 "4b52050504030201a0a1a2a3a4a5a6a7a8a9aaabacadaeaf680001090d0c0b0a"
	 "0807060504030201818240000000000095776655443322115030201090706050"
	 "05000000000000009a00000000000000efcdab89674523010000000005000000"
	 "68656c6c6f000000",
	 {.type = WIRE_GET,
	  .flags = WIRE_GET_INLINE | WIRE_GET_HOT,
	  .id = ID + 13,
	  .posted_ns = 0x10203050,
	  .replied_ns = 0x50607090,
	  .get = {.value_len = 5, .generation = 0x9a, .checksum = 0x0123456789abcdef, .inline_data = BYTES("hello")}}},
	{"get_miss",
	 "4b52050504030201a0a1a2a3a4a5a6a7a8a9aaabacadaeaf600001090d0c0b0a"
	 "080706050403020181003800010000008a7766554433221100000000ffffffff"
	 "0000000000000000000000000000000000000000000000000000000000000000",
	 {.type = WIRE_GET, .status = WIRE_NOTFOUND, .id = ID + 2, .posted_ns = 0x0, .replied_ns = 0xffffffff}},
	{"put",
	 "4b52050504030201a0a1a2a3a4a5a6a7a8a9aaabacadaeaf500001090d0c0b0a"
	 "080706050403020182002800000000008b776655443322114330201083706050"
	 "77000000000000009b00000000000000",
	 {.type = WIRE_PUT,
	  .id = ID + 3,
	  .posted_ns = 0x10203043,
	  .replied_ns = 0x50607083,
	  .put = {.stage = 0x77, .generation = 0x9b}}},
	{"exists",
	 "4b52050504030201a0a1a2a3a4a5a6a7a8a9aaabacadaeaf500001090d0c0b0a"
	 "080706050403020183002800000000008c776655443322114430201084706050"
	 "0b00020000000000b305000000000000",
	 {.type = WIRE_EXISTS,
	  .id = ID + 4,
	  .posted_ns = 0x10203044,
	  .replied_ns = 0x50607084,
	  .exists = {.count = 11, .prefix = 2, .bitmap = bitmap}}},
	{"exists_deleted",
	 "4b52050504030201a0a1a2a3a4a5a6a7a8a9aaabacadaeaf500001090d0c0b0a"
	 "080706050403020183012800000000008c776655443322114430201084706050"
	 "0b00020000000000b305b30500000000",
	 {.type = WIRE_EXISTS,
	  .flags = WIRE_EXISTS_DELETED,
	  .id = ID + 4,
	  .posted_ns = 0x10203044,
	  .replied_ns = 0x50607084,
	  .exists = {.count = 11, .prefix = 2, .bitmap = bitmap, .deleted = bitmap}}},
	{"exists_tier",
	 "4b52050504030201a0a1a2a3a4a5a6a7a8a9aaabacadaeaf500001090d0c0b0a"
	 "080706050403020183022800000000008c776655443322114430201084706050"
	 "0b00020000000000b305b30500000000",
	 {.type = WIRE_EXISTS,
	  .flags = WIRE_EXISTS_TIER,
	  .id = ID + 4,
	  .posted_ns = 0x10203044,
	  .replied_ns = 0x50607084,
	  .exists = {.count = 11, .prefix = 2, .bitmap = bitmap, .tier = bitmap}}},
	{"delete",
	 "4b52050504030201a0a1a2a3a4a5a6a7a8a9aaabacadaeaf480001090d0c0b0a"
	 "080706050403020184002000010000008d77665544332211ffffffffffffffff"
	 "0cc1000000000000",
	 {.type = WIRE_DELETE,
	  .status = WIRE_NOTFOUND,
	  .drop = {0xc10c},
	  .id = ID + 5,
	  .posted_ns = 0xffffffff,
	  .replied_ns = 0xffffffff}},
	{"touch",
	 "4b52050504030201a0a1a2a3a4a5a6a7a8a9aaabacadaeaf600001090d0c0b0a"
	 "080706050403020185013800000000008e776655443322114630201086706050"
	 "80ee3600000000009e0a0000000000001eaba15c000000000cc1000000000000",
	 {.type = WIRE_TOUCH,
	  .flags = WIRE_TOUCH_LOOK,
	  .id = ID + 6,
	  .posted_ns = 0x10203046,
	  .replied_ns = 0x50607086,
	  .touch = {3600000, 0xa9e, 0x5ca1ab1e, 0xc10c}}},
	{"pin",
	 "4b52050504030201a0a1a2a3a4a5a6a7a8a9aaabacadaeaf400001090d0c0b0a"
	 "0807060504030201860118000d0000008f776655443322114730201087706050",
	 {.type = WIRE_PIN,
	  .flags = WIRE_PIN_RELEASE,
	  .status = WIRE_FULL,
	  .id = ID + 7,
	  .posted_ns = 0x10203047,
	  .replied_ns = 0x50607087}},
	{"stat",
	 "4b52050504030201a0a1a2a3a4a5a6a7a8a9aaabacadaeaf680001090d0c0b0a"
	 "0807060504030201870040000000000090776655443322114830201088706050"
	 "02000000000000000600000000000000e8030000000000002000000000000000"
	 "0000000000010000",
	 {.type = WIRE_STAT,
	  .id = ID + 8,
	  .posted_ns = 0x10203048,
	  .replied_ns = 0x50607088,
	  .stat = {.count = 2, .pairs = pairs}}},
	{"cancel",
	 "4b52050504030201a0a1a2a3a4a5a6a7a8a9aaabacadaeaf500001090d0c0b0a"
	 "0807060504030201880028000000000091776655443322114930201089706050"
	 "88776655443322110400000001000000",
	 {.type = WIRE_CANCEL,
	  .id = ID + 9,
	  .posted_ns = 0x10203049,
	  .replied_ns = 0x50607089,
	  .cancel = {.id = ID, .posted = 4, .state = WIRE_CANCEL_STOPPED}}},
	{"ping",
	 "4b52050504030201a0a1a2a3a4a5a6a7a8a9aaabacadaeaf580001090d0c0b0a"
	 "0807060504030201890030000000000092776655443322114a3020108a706050"
	 "0df0fecaefbeadde40e20100000000001112131415161718",
	 {.type = WIRE_PING,
	  .id = ID + 10,
	  .posted_ns = 0x1020304a,
	  .replied_ns = 0x5060708a,
	  .ping = {.cookie = 0xdeadbeefcafef00d, .turns = 123456, .nonce = NONCE_64}}},
	{"tombs",
	 "4b52050504030201a0a1a2a3a4a5a6a7a8a9aaabacadaeaf600001090d0c0b0a"
	 "08070605040302018a0038000000000090776655443322114830201088706050"
	 "05f400000000000001000000c09000001d00000000000000a6e0000000000000",
	 {.type = WIRE_TOMBS,
	  .id = ID + 8,
	  .posted_ns = 0x10203048,
	  .replied_ns = 0x50607088,
	  .tombs = {.next = 0xf405, .count = 1, .known_ms = 0x90c0, .tombs = one_tomb}}},
	{"clear",
	 "4b52050504030201a0a1a2a3a4a5a6a7a8a9aaabacadaeaf480001090d0c0b0a"
	 "08070605040302018b0120000000000090776655443322114830201088706050"
	 "d05a000000000000",
	 {.type = WIRE_CLEAR,
	  .flags = WIRE_CLEAR_RAISE,
	  .id = ID + 8,
	  .posted_ns = 0x10203048,
	  .replied_ns = 0x50607088,
	  .clear = {0x5ad0}}},
	{"spaces",
	 "4b52050504030201a0a1a2a3a4a5a6a7a8a9aaabacadaeafd00001090d0c0b0a"
	 "08070605040302018c00a8000000000090776655443322114830201088706050"
	 "05f40000000000005a0000000000000001000000000000000400000000000000"
	 "6368617400000000000000000000000000000000000000000000000000000000"
	 "0000000000000000000000000000000000000000000000000000000000000000"
	 "d05a000000000000030000000000000000300000000000005000000000000000"
	 "09000000000000000700000000000000",
	 {.type = WIRE_SPACES,
	  .id = ID + 8,
	  .posted_ns = 0x10203048,
	  .replied_ns = 0x50607088,
	  .rows = {.next = 0xf405, .floor = 0x5a, .count = 1, .at = one_space}}},
	{"tenants",
	 "4b52050504030201a0a1a2a3a4a5a6a7a8a9aaabacadaeaf100101090d0c0b0a"
	 "08070605040302018d00e8000000000090776655443322114830201088706050"
	 "05f40000000000000100000000000000040000000100000061636d6500000000"
	 "0000000000000000000000000000000000000000000000000000000000000000"
	 "0000000000000000000000000000000000000000000000000030000000000000"
	 "0040000000000000ffffffffffffffff50000000000000006000000000000000"
	 "7000000000000000800000000000000009000000000000000a00000000000000"
	 "00b000000000000000c00000000000000d000000000000000e00000000000000"
	 "0f000000000000001000000000000000",
	 {.type = WIRE_TENANTS,
	  .id = ID + 8,
	  .posted_ns = 0x10203048,
	  .replied_ns = 0x50607088,
	  .rows = {.next = 0xf405, .count = 1, .at = one_tenant}}},
	{"leases",
	 "4b52050504030201a0a1a2a3a4a5a6a7a8a9aaabacadaeafc80001090d0c0b0a"
	 "08070605040302019100a0000000000090776655443322114830201088706050"
	 "05f40000000000000100000000000000040000000000000061636d6500000000"
	 "0000000000000000000000000000000000000000000000000000000000000000"
	 "0000000000000000000000000000000000000000000000007700000000000000"
	 "0200010000000000671200000000000003000000000000000030000000000000"
	 "0050000000000000",
	 {.type = WIRE_LEASES,
	  .id = ID + 8,
	  .posted_ns = 0x10203048,
	  .replied_ns = 0x50607088,
	  .rows = {.next = 0xf405, .count = 1, .at = one_holder}}},
};
const size_t golden_replies_n = KV_COUNT(golden_replies);

#define DIGEST ((kv_u128)0x0102030405060708 << 64 | 0x1122334455667788)

static const uint8_t packed_events[] = "\001\000\003\000\000\020\000\000\000\000\000\000\153\055\061"
				       "\002\001\002\004\007\000\000\000\000\000\000\000\153\062\164\145\141\155"
				       "\003\000\000\000\000\000\000\000\000\000\000\000"
				       "\004\000\000\000\000\000\000\000\000\000\000\000";
static const uint8_t packed_members[] =
	"\x07\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x02\x00\x00\x00\x04\x00\x6b\x76\x2d\x30\x0d\x00"
	"\x31\x30\x2e\x30\x2e\x30\x2e\x31\x3a\x37\x34\x31\x31\x01\x00\x61\x00\x00\x00\x00\x00\x00\x00\x00"
	"\x03\x00\x00\x00\x03\x00\x00\x00\x04\x00\x6b\x76\x2d\x31\x0e\x00\x5b\x66\x64\x30\x30\x3a\x3a\x32"
	"\x5d\x3a\x37\x34\x31\x31\x00\x00";

const struct golden_ctrl golden_ctrls[] = {
	{"hello",
	 "8700000001000000050005000020000044443333222211113031323334353637"
	 "38393a3b3c3d3e3f88887777666655550d0c0b0a0000100004000200c9ab0000"
	 "b0b1b2b3b4b5b6b7b8b9babbbcbdbebf0b007463703b6f66695f72786d0b0031"
	 "32372e302e302e302f38040070726f646e6e0000000000000400636861740400"
	 "1010101005001111111111",
	 {.type = WIRE_CTRL_HELLO,
	  .hello = {.version_min = 5,
		    .version_max = 5,
		    .loops = 4,
		    .rails = 2,
		    .eager_bytes = 8192,
		    .chunk_bytes = 1 << 20,
		    .incarnation = 0x1111222233334444,
		    .client_id = 0x5555666677778888,
		    .mark = 0x0a0b0c0d,
		    .host_id = HOST,
		    .prior = {0xabc9, "\xb0\xb1\xb2\xb3\xb4\xb5\xb6\xb7\xb8\xb9\xba\xbb\xbc\xbd\xbe\xbf"},
		    .provider = "tcp;ofi_rxm",
		    .fabric = "127.0.0.0/8",
		    .cluster = "prod",
		    .space = "chat",
		    .generation = 0x6e6e,
		    .addr = {{4, "\x10\x10\x10\x10"}, {5, "\x11\x11\x11\x11\x11"}}}}},
	{"welcome",
	 "a0000000020000000500020002001200cdab0000a0a1a2a3a4a5a6a7a8a9aaab"
	 "acadaeaf9999000000000000303132333435363738393a3b3c3d3e3fed5e0000"
	 "000000000000100040000000e80300000020000000000010000000000cc10000"
	 "000000006f6e000000000000c1000000000000000400000006006e6f64652d61"
	 "040070726f640400101010100500111111111106001212121212120700131313"
	 "13131313",
	 {.type = WIRE_CTRL_WELCOME,
	  .welcome = {.version = 5,
		      .shards = 2,
		      .rails = 2,
		      .flags = WIRE_WELCOME_LANDING | WIRE_WELCOME_PULL,
		      .loops = 4,
		      .session = 0xabcd,
		      .chunk_bytes = 1 << 20,
		      .credits = 64,
		      .heartbeat_ms = 1000,
		      .eager_bytes = 8192,
		      .token = "\xa0\xa1\xa2\xa3\xa4\xa5\xa6\xa7\xa8\xa9\xaa\xab\xac\xad\xae\xaf",
		      .incarnation = 0x9999,
		      .shard_seed = 0x5eed,
		      .value_max = 1 << 28,
		      .clock_ns = 0xc10c,
		      .generation = 0x6e6f,
		      .cleared_ns = 0xc1,
		      .host_id = HOST,
		      .node_id = "node-a",
		      .cluster = "prod",
		      .addrs = addrs,
		      .addrs_len = sizeof(addrs) - 1}}},
	{"refuse",
	 "2e000000030000000d0000002400746865207365727665722069732066756c6c"
	 "3a203634206f6620363420636c69656e7473",
	 {.type = WIRE_CTRL_REFUSE, .refuse = {.status = WIRE_FULL, .text = "the server is full: 64 of 64 clients"}}},
	{"region",
	 "8400000004000000070000000200010000005000000000000000200000000000"
	 "0300000000000000000000100000000000efbe00000000000000201000000000"
	 "01efbe0000000000000040100000000002efbe00000000000000002000000000"
	 "10efbe0000000000000020200000000011efbe00000000000000402000000000"
	 "12efbe0000000000",
	 {.type = WIRE_CTRL_REGION,
	  .region = {.id = 7,
		     .parts = 3,
		     .rails = 2,
		     .virt = true,
		     .len_bytes = 0x500000,
		     .part_bytes = 0x200000,
		     .keys = table}}},
	{"region_ok", "0c0000000500000007000000ffffffff", {.type = WIRE_CTRL_REGION_OK, .region_ok = {7, -1}}},
	{"revoke", "0c000000060000000700000000000000", {.type = WIRE_CTRL_REVOKE, .region_ok = {7, 0}}},
	{"revoke_ok", "0c000000070000000700000000000000", {.type = WIRE_CTRL_REVOKE_OK, .region_ok = {7, 0}}},
	{"address",
	 "1d0000000800000002000000030000000600121212121212070013131313131313",
	 {.type = WIRE_CTRL_ADDRESS,
	  .address = {.rails = 2,
		      .epoch = 3,
		      .addr = {{6, "\x12\x12\x12\x12\x12\x12"}, {7, "\x13\x13\x13\x13\x13\x13\x13"}}}}},
	{"address_ok",
	 "0c00000009000000030000000f000000",
	 {.type = WIRE_CTRL_ADDRESS_OK, .region_ok = {3, WIRE_FABRIC}}},
	{"heartbeat",
	 "3c0000000a0000001100000000000000a0860100000000000cc1000000000000"
	 "0300000000000000010000000000000002000000000000000300000000000000",
	 {.type = WIRE_CTRL_HEARTBEAT,
	  .heartbeat = {.sequence = 17, .quiet_ms = 100000, .clock_ns = 0xc10c, .shards = 3, .turns = {1, 2, 3}}}},
	{"heartbeat_client",
	 "240000000a0000001200000000000000000000000000000000000000000000000000000000000000",
	 {.type = WIRE_CTRL_HEARTBEAT, .heartbeat = {.sequence = 18}}},
	{"goodbye", "040000000b000000", {.type = WIRE_CTRL_GOODBYE}},
	{"goodbye_ok", "040000000c000000", {.type = WIRE_CTRL_GOODBYE_OK}},
	{"goodbye_done", "040000000d000000", {.type = WIRE_CTRL_GOODBYE_DONE}},
	{"session_begin", "040000000e000000", {.type = WIRE_CTRL_SESSION_BEGIN}},
	{"session_challenge",
	 "240000000f000000202122232425262728292a2b2c2d2e2f303132333435363738393a3b3c3d3e3f",
	 {.type = WIRE_CTRL_SESSION_CHALLENGE, .session_challenge = {NONCE_A}}},
	{"session_open",
	 "6a00000010000000030000000000000088887777666655552021222324252627"
	 "28292a2b2c2d2e2f303132333435363738393a3b3c3d3e3f4041424344454647"
	 "48494a4b4c4d4e4f505152535455565758595a5b5c5d5e5f06007465616d2d61"
	 "0700000000000000040063686174",
	 {.type = WIRE_CTRL_SESSION_OPEN,
	  .session_open = {.id = 3,
			   .client_id = 0x5555666677778888,
			   .nonce = NONCE_A,
			   .proof = NONCE_B,
			   .identity = "team-a",
			   .space = "chat",
			   .generation = 7}}},
	{"session_open_own",
	 "6000000010000000010000000000000000000000000000002021222324252627"
	 "28292a2b2c2d2e2f303132333435363738393a3b3c3d3e3f4041424344454647"
	 "48494a4b4c4d4e4f505152535455565758595a5b5c5d5e5f0000000000000000"
	 "00000000",
	 {.type = WIRE_CTRL_SESSION_OPEN, .session_open = {.id = 1, .nonce = NONCE_A, .proof = NONCE_B}}},
	{"session_ok",
	 "140000001100000003000000070001002000000000000000",
	 {.type = WIRE_CTRL_SESSION_OK, .session_ok = {.id = 3, .session = 0x10007, .credits = 32}}},
	{"session_refuse",
	 "2000000012000000030000000500000012007468652070726f6f662069732077726f6e67",
	 {.type = WIRE_CTRL_SESSION_REFUSE,
	  .session_refuse = {.id = 3, .status = WIRE_DENIED, .text = "the proof is wrong"}}},
	{"session_close",
	 "0c000000130000000700010000000000",
	 {.type = WIRE_CTRL_SESSION_CLOSE, .session_close = {0x10007, 0}}},
	{"session_close_ok",
	 "1400000014000000070001000000000040420f0000000000",
	 {.type = WIRE_CTRL_SESSION_CLOSE_OK, .session_close = {0x10007, 1000000}}},
	{"arenas", "0400000015000000", {.type = WIRE_CTRL_ARENAS}},
	{"arena",
	 "8400000016000000010000000200070000005000000000000000200000000000"
	 "0300000000000000000000100000000000efbe00000000000000201000000000"
	 "01efbe0000000000000040100000000002efbe00000000000000002000000000"
	 "10efbe0000000000000020200000000011efbe00000000000000402000000000"
	 "12efbe0000000000",
	 {.type = WIRE_CTRL_ARENA,
	  .region = {.id = 1,
		     .parts = 3,
		     .rails = 2,
		     .virt = true,
		     .write_emulated = true,
		     .read_emulated = true,
		     .len_bytes = 0x500000,
		     .part_bytes = 0x200000,
		     .keys = table}}},
	{"landings", "0400000017000000", {.type = WIRE_CTRL_LANDINGS}},
	{"landing",
	 "3400000018000000010000000100000000002000000000000000004000000000"
	 "0100000000000000000000100000000000efbe0000000000",
	 {.type = WIRE_CTRL_LANDING,
	  .region = {.id = 1, .parts = 1, .rails = 1, .len_bytes = 0x200000, .part_bytes = 0x40000000, .keys = table}}},
	{"landing_none",
	 "24000000180000000200000001000000000000000000000000000000000000000000000000000000",
	 {.type = WIRE_CTRL_LANDING, .region = {.id = 2, .rails = 1}}},
	{"view_ask",
	 "140000001900000088776655443322110807060504030201",
	 {.type = WIRE_CTRL_VIEW_ASK, .view_news = {.digest = DIGEST}}},
	{"view",
	 "6c0000001a000000050000000000000009000000000000000200000000000000"
	 "0700000000000000010000000200000004006b762d300d0031302e302e302e31"
	 "3a373431310100610000000000000000030000000300000004006b762d310e00"
	 "5b666430303a3a325d3a373431310000",
	 {.type = WIRE_CTRL_VIEW,
	  .view = {.source = 5,
		   .epoch = 9,
		   .count = 2,
		   .members = packed_members,
		   .members_len = sizeof(packed_members) - 1}}},
	{"view_none", "1c0000001a000000000000000000000000000000000000000000000000000000", {.type = WIRE_CTRL_VIEW}},
	{"view_news",
	 "2c0000001b000000050000000000000009000000000000008877665544332211"
	 "08070605040302010100000000000000",
	 {.type = WIRE_CTRL_VIEW_NEWS, .view_news = {.source = 5, .epoch = 9, .digest = DIGEST, .draining = true}}},
	{"drain",
	 "140000001c00000030750000000000000000004000000000",
	 {.type = WIRE_CTRL_DRAIN, .drain = {.time_ms = 30000, .bytes_s = 1 << 30}}},
	{"drain_ok", "0c0000001d0000001027000000000000", {.type = WIRE_CTRL_DRAIN_OK, .drain.time_ms = 10000}},
	{"drain_done",
	 "740000001e0000005a0000000000000000100000000000006400000000000000"
	 "0500000000000000090000000000000007000000000000000000000000000000"
	 "0100000000000000000000000000000000000000000000000000000000000000"
	 "000000000000000000000000000000000200000000000000",
	 {.type = WIRE_CTRL_DRAIN_DONE,
	  .drained = {.values = 90,
		      .bytes = 4096,
		      .of = 100,
		      .gone = 5,
		      .left = {[KV_LEFT_TIME] = 7, [KV_LEFT_UNREACHABLE] = 1, [KV_LEFT_STUCK] = 2}}}},
	{"local_ask",
	 "140000001f000000000102030405060708090a0b0c0d0e0f",
	 {.type = WIRE_CTRL_LOCAL_ASK, .local.boot_id = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}}},
	{"local",
	 "3000000020000000000000000000000000000000000000000000000f00000000"
	 "00000000000000000000001f0400406b76310000",
	 {.type = WIRE_CTRL_LOCAL, .local = {.nonce = {[15] = 15}, .proof = {[15] = 31}, .name = "@kv1"}}},
	{"local_refused",
	 "3200000020000000050000000000000000000000000000000000000000000000"
	 "0000000000000000000000000000060074656e616e74",
	 {.type = WIRE_CTRL_LOCAL, .local = {.status = WIRE_DENIED, .text = "tenant"}}},
	{"events_ask",
	 "2400000021000000887766554433221112000000000000000000000000000000"
	 "0000000000000000",
	 {.type = WIRE_CTRL_EVENTS_ASK, .events = {.epoch = 0x1122334455667788, .next = 18}}},
	{"events_ask_page",
	 "2400000021000000000000000000000000000000000000000100000002000000"
	 "ffffffff00000000",
	 {.type = WIRE_CTRL_EVENTS_ASK, .events = {.flags = WIRE_EVENTS_SNAPSHOT, .shard = 2, .at = UINT32_MAX}}},
	{"events",
	 "6500000022000000887766554433221116000000000000000000000000000000"
	 "000000000400000012000000000000000100030000100000000000006b2d3102"
	 "01020407000000000000006b327465616d030000000000000000000000040000"
	 "000000000000000000",
	 {.type = WIRE_CTRL_EVENTS,
	  .events = {.epoch = 0x1122334455667788,
		     .first = 18,
		     .next = 22,
		     .count = 4,
		     .events = packed_events,
		     .events_len = sizeof(packed_events) - 1}}},
	{"events_gap",
	 "2c0000002200000088776655443322111e000000000000000200000000000000"
	 "00000000000000001e00000000000000",
	 {.type = WIRE_CTRL_EVENTS,
	  .events = {.epoch = 0x1122334455667788, .first = 30, .next = 30, .flags = WIRE_EVENTS_GAP}}},
	{"events_page",
	 "3b0000002200000088776655443322111e000000000000000100000001000000"
	 "f4010000010000001e000000000000000100030000100000000000006b2d31",
	 {.type = WIRE_CTRL_EVENTS,
	  .events = {.epoch = 0x1122334455667788,
		     .first = 30,
		     .next = 30,
		     .flags = WIRE_EVENTS_SNAPSHOT,
		     .shard = 1,
		     .at = 500,
		     .count = 1,
		     .events = packed_events,
		     .events_len = 15}}},
};
const size_t golden_ctrls_n = KV_COUNT(golden_ctrls);
