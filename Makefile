# SPDX-License-Identifier: Apache-2.0
# KVRail: one Makefile. `make help` lists the targets; MODE=release|debug|asan|tsan|cov and CC=gcc|clang choose the build.

MODE ?= release
B    := build/$(MODE)$(if $(filter clang%,$(CC)),-clang)

PKGS    := libfabric liburing openssl libxxhash jansson libedit
WARN    := -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wvla -Wundef -Werror
CFLAGS_release := -O2 -g -DNDEBUG -D_FORTIFY_SOURCE=2
CFLAGS_debug   := -O0 -g3
CFLAGS_asan    := -O1 -g -fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize-recover=undefined
CFLAGS_tsan    := -O1 -g -fno-omit-frame-pointer -fsanitize=thread
CFLAGS_cov     := -O0 -g --coverage
ALL_CFLAGS  = -std=gnu11 -D_GNU_SOURCE -I. -fPIC -pthread -fvisibility=hidden $(WARN) $(CFLAGS_$(MODE)) $(shell pkg-config --cflags $(PKGS) 2>/dev/null) $(CFLAGS)
ALL_LDFLAGS = -pthread $(filter -fsanitize% --coverage,$(CFLAGS_$(MODE))) $(LDFLAGS)
LIBS        = $(shell pkg-config --libs $(PKGS) 2>/dev/null) -libverbs -lcmocka -ldl -lm

# A layer is a folder; `ring` and `fab` are the two link-time seams (io_uring or simulated, libfabric or simulated).
LAYERS   := base loop ring wire bootstrap engine fab kvclient kvserver kvbench kvcli
src_ring := $(wildcard loop/ring_*.c)
src_loop := $(filter-out $(src_ring),$(wildcard loop/*.c loop/*.S))
src_fab  := $(wildcard engine/fabric*.c)
src_engine := $(filter-out $(src_fab),$(wildcard engine/*.c))
$(foreach l,base wire bootstrap kvclient kvserver kvbench kvcli,$(eval src_$(l) := $(filter-out $(l)/main.c,$(wildcard $(l)/*.c))))
objs = $(addprefix $(B)/,$(addsuffix .o,$(1)))

.PHONY: all
all:

define layer_rule
$(B)/lib$(1).a: $(call objs,$(src_$(1)))
	@rm -f $$@; ar rcs $$@ $$^
endef
$(foreach l,$(LAYERS),$(eval $(call layer_rule,$(l))))

$(B)/%.c.o: %.c
	@mkdir -p $(@D)
	$(CC) $(ALL_CFLAGS) -MMD -MP -c -o $@ $<
$(B)/%.S.o: %.S
	@mkdir -p $(@D)
	$(CC) $(ALL_CFLAGS) -MMD -MP -c -o $@ $<

a = $(patsubst %,$(B)/lib%.a,$(1))
link = $(CC) $(ALL_LDFLAGS) -o $@ $(filter %.o,$^) -Wl,--start-group $(filter %.a,$^) -Wl,--end-group $(LIBS)

# Programs: which layers each may link is DESIGN.md's table.
CLIENT_LAYERS := base loop ring wire bootstrap engine fab kvclient
$(B)/kv-server: $(B)/kvserver/main.c.o $(call a,base loop ring wire bootstrap engine fab kvserver)
	$(link)
$(B)/kv-bench: $(B)/kvbench/main.c.o $(call a,$(CLIENT_LAYERS) kvbench)
	$(link)
$(B)/kv-client: $(B)/kvcli/main.c.o $(call a,$(CLIENT_LAYERS) kvcli)
	$(link)

# Tests: tests/LAYER/test_*.c, each one a cmocka program; `needs_LAYER` says what it links.
needs_base      := base
needs_loop      := base loop ring
needs_wire      := base wire
needs_engine    := base loop ring engine fab
needs_bootstrap := base loop ring wire bootstrap
needs_kvserver  := base loop ring wire bootstrap engine fab kvserver
needs_kvclient  := base loop ring wire bootstrap engine fab kvclient
needs_kvbench   := base loop ring wire bootstrap engine fab kvclient kvbench
needs_sim       := base loop wire bootstrap engine kvclient kvserver
TESTS :=
define test_rule
tests_$(1) := $(patsubst %.c,$(B)/%,$(wildcard tests/$(1)/test_*.c))
TESTS += $$(tests_$(1))
$$(tests_$(1)): %: %.c.o $(call objs,$(filter-out tests/$(1)/test_%,$(wildcard tests/$(1)/*.c))) $(call a,$(needs_$(1)))
	$$(link)
endef
$(foreach l,base loop wire engine bootstrap kvserver kvclient kvbench sim,$(eval $(call test_rule,$(l))))

.PHONY: tests clean
tests: $(TESTS)
clean:
	rm -rf build

-include $(shell find $(B) -name '*.d' 2>/dev/null)
