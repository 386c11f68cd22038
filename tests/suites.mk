# SPDX-License-Identifier: Apache-2.0
# suites.mk -- what the tests are made of, and the suites; `make help` lists them. Included by the Makefile. tests/README.md says which is for what.

$(addprefix $(B)/tests/integration/,embedder exists_time tenant_sessions): $(B)/tests/integration/%: tests/integration/%.c $(B)/libkvrail.so.0 $(HEADERS)
	$(call embedding,/../..)

# Tests: tests/LAYER/test_*.c, each one a cmocka program that speaks TAP; `needs_LAYER` says what it links.
# tests/sim links no ring, no passing of descriptors and no fabric: it brings simulated ones.
needs_base      := base
needs_host      := base host
needs_probe     := base probe
needs_loop      := base loop ring
needs_wire      := base wire
needs_bootstrap := base loop ring wire bootstrap
needs_local     := base host loop ring local pass
needs_engine    := base host loop ring local engine fab
needs_store     := base host store
needs_kvserver  := $(SERVER_LAYERS)
needs_kvclient  := $(CLIENT_LAYERS)
needs_kvbench   := $(CLIENT_LAYERS) probe store kvbench
needs_kvcli     := $(CLIENT_LAYERS) kvcli
needs_kvdoctor  := $(DOCTOR_LAYERS) probe kvdoctor
needs_hotpath   := $(CLIENT_LAYERS) store kvserver
needs_sim       := base host loop wire bootstrap local engine store kvclient kvserver

# Half of a first build compiles and links tests. In release mode they have no debug information (MODE=debug has), and the
# faster linker of binutils links them where it is installed. Test programs that wait for others more than they compute
# are not optimized: that takes half of the time. The others have -O1.
CFLAGS_light := -DNDEBUG -D_FORTIFY_SOURCE=2
COMPUTING    := base wire store local loop sim hotpath
LINK_release := $(if $(shell command -v ld.gold),-fuse-ld=gold) -Wl,-S
test_link = $(link) $(LINK_$(MODE))
$(B)/tests/%.c.o: CFLAGS_release := -O2 $(CFLAGS_light)

TESTS :=
define test_rule
tests_$(1) := $(patsubst %.c,$(B)/%,$(wildcard tests/$(1)/test_*.c))
TESTS += $$(tests_$(1))
$$(tests_$(1)): %: %.c.o $(B)/tests/filter.c.o $(call objs,$(filter-out tests/$(1)/test_% tests/sim/seeds.c,$(wildcard tests/$(1)/*.c))) $(call a,$(needs_$(1)))
	$$(test_link) -lcmocka
$$(tests_$(1):=.c.o): CFLAGS_release := $(if $(filter $(1),$(COMPUTING)),-O1 $(CFLAGS_light),-O0 -DNDEBUG)
endef
$(foreach l,base host probe loop wire bootstrap local engine store kvserver kvclient kvbench kvcli kvdoctor hotpath sim,$(eval $(call test_rule,$(l))))

# The options of kv-server name sources of members, and these libcurl.
$(tests_kvserver): LIBS += $(HTTP_LIBS)

# The engine's tests on a fabric that does what they say: its objects stand before libfab.a, which then gives nothing.
FAKED := $(addprefix $(B)/tests/engine/test_,credits failures fence local rails regions transfers)
$(FAKED): $(call objs,$(wildcard tests/engine/fake/*.c))

# What that fabric and the simulated one do alike.
$(FAKED) $(tests_sim) $(B)/tests/sim/seeds: $(call objs,tests/fabric_stand_in.c)

# Many simulated worlds. Libraries that another machine may lack are looked for in lib/ beside it, too.
$(B)/tests/sim/seeds: $(call objs,$(filter-out tests/sim/test_%,$(wildcard tests/sim/*.c))) $(call a,$(needs_sim))
	$(test_link) -lcmocka -Wl,-rpath,'$$ORIGIN/lib'

# valgrind/flat.py finds its functions by their files.
$(B)/tests/sim/test_sim_many: LINK_release :=

# Unix sockets of the simulated world are closed, and frames in shared memory take their time.
$(tests_sim) $(B)/tests/sim/seeds: LDFLAGS += -Wl,--wrap=close -Wl,--wrap=local_receive -Wl,--wrap=local_channel_close

# It has an address used again.
$(B)/tests/sim/test_sim_plans: LDFLAGS += -Wl,--wrap=calloc -Wl,--wrap=free

# In it other processes do something between poll and write; here a region cannot be registered.
$(B)/tests/base/test_log: LDFLAGS += -Wl,--wrap=poll
$(B)/tests/kvserver/test_landing: LDFLAGS += -Wl,--wrap=te_region_register
# A file from before 1970: not every file system keeps such a time.
$(B)/tests/kvserver/test_saved: LDFLAGS += -Wl,--wrap=stat -Wl,--wrap=fstat
PUSH_WRAPS := kv_clock_monotonic clock_nanosleep kvc_pool_open kvc_pool_close kvc_counters kvc_server_info kc_copy_batch kvs_server_info lot_new lot_next_wait lot_end_wait lot_free kc_delete_at
$(B)/tests/kvserver/test_push: LDFLAGS += $(addprefix -Wl$(comma)--wrap=,$(PUSH_WRAPS))

# Another kernel gives and seals shared memory.
$(B)/tests/host/test_shared: LDFLAGS += $(addprefix -Wl$(comma)--wrap=,memfd_create fcntl madvise kv_file_number kv_pages_there)

# Both sides of a channel use one mapping, for ThreadSanitizer; bells may be no system calls.
# Behind a hostile one stands a page that nobody may touch.
$(B)/tests/local/test_hostile_channel: LDFLAGS += -Wl,--wrap=kv_memfd_map
$(B)/tests/local/test_channel: LDFLAGS += $(addprefix -Wl$(comma)--wrap=,kv_memfd_map munmap send recv)

# The memory of a server cannot be mapped.
$(B)/tests/kvclient/test_local_ends: LDFLAGS += -Wl,--wrap=local_map

# A run of kv-bench ends where its pool would open.
$(B)/tests/kvbench/test_run: LDFLAGS += -Wl,--wrap=kvc_pool_open

# The time of day jumps by an hour: preloaded by output.sh, also into programs that have no sanitizer.
$(B)/tests/integration/stepped_clock.so: tests/integration/stepped_clock.c
	@mkdir -p $(@D)
	$(if $(V),,@echo "  LINK  $@")
	$(Q)$(CC) -std=gnu11 -D_GNU_SOURCE -O1 -fPIC -fvisibility=hidden $(WARN) -shared -o $@ $<

# Preloaded into the programs of check, except under a sanitizer, which is to be the first of all libraries.
$(B)/tests/quick_start.so: tests/quick_start.c
	@mkdir -p $(@D)
	$(if $(V),,@echo "  LINK  $@")
	$(Q)$(CC) -std=gnu11 -D_GNU_SOURCE -O1 -fPIC -fvisibility=hidden $(WARN) -shared -o $@ $< -ldl

# Programs of the chaos and port tests, and of tests/bench submit, and lookup and seal, which are run by hand.
$(patsubst %.c,$(B)/%,$(wildcard tests/chaos/*.c tests/port/*.c) tests/bench/lookup.c tests/bench/seal.c tests/bench/submit.c): %: %.c.o $(call a,$(CLIENT_LAYERS))
	$(test_link)

PORT := $(patsubst %.c,$(B)/%,$(wildcard tests/port/*.c))

# Programs of `make bench`, and some which are run by hand: hash, samehost, window, pages, channel, keep and tier_scan, for what the checksum, the copying, the pages, the frames, the index of --keep and that of a tier cost here. They link no client of ours.
BENCH_TOOLS := $(addprefix $(B)/tests/bench/,lfget rawtcp kvreplay c2c hash samehost window pages channel)
$(B)/tests/bench/window: $(call objs,kvserver/ops/copy.c)
$(BENCH_TOOLS): %: %.c.o $(call objs,$(addprefix tests/bench/,result.c load.c)) $(call a,kvbench loop ring local host base)
	$(link)
$(addprefix $(B)/tests/bench/,keep tier_scan): %: %.c.o $(B)/tests/bench/result.c.o $(call a,kvbench $(needs_store))
	$(link)
$(B)/tests/bench/congestion.so: $(B)/tests/bench/congestion.c.o
	$(link) -shared
BENCH_TOOLS += $(addprefix $(B)/tests/bench/,keep tier_scan congestion.so seal submit)

# The fault sweep interposes every fallible function that our objects call; made for MODE=asan.
$(B)/tests/fault/sweep: $(call objs,$(wildcard tests/fault/*.c)) $(call a,$(CLIENT_LAYERS) store kvserver) tests/fault/wrap.txt
	$(link) $(foreach w,$(shell cat tests/fault/wrap.txt 2>/dev/null),-Wl,--wrap=$(w))

# The shim (tests/shim/README.md): preloaded into programs, and linked into the engine's and client's own tests again.
SHIM_OBJS := $(call objs,$(filter-out tests/shim/test_%,$(wildcard tests/shim/*.c)))
$(B)/tests/shim/shim.so: $(SHIM_OBJS) $(call a,host base)
	$(if $(V),,@echo "  LINK  $@";) $(CC) $(filter-out -Wl$(comma)-z$(comma)relro$(comma)-z$(comma)now,$(ALL_LDFLAGS)) -shared -o $@ $^ -lxxhash -ldl
SHIM_ENGINE := $(addprefix $(B)/tests/shim/,conform process attach shim)
$(B)/tests/shim/conform $(B)/tests/shim/process $(B)/tests/shim/attach: $(B)/tests/shim/%: $(B)/tests/engine/test_%.c.o
$(B)/tests/shim/shim: $(B)/tests/shim/test_shim.c.o
$(SHIM_ENGINE): $(SHIM_OBJS) $(call objs,tests/engine/node.c tests/engine/child.c tests/engine/ends.c) $(call a,$(needs_engine))
	$(test_link) -lcmocka

# Fuzz targets: tests/fuzz/fuzz_X.c runs its corpus through standalone.c everywhere, and under libFuzzer with clang (`make fuzz`).
FUZZ  := $(patsubst tests/fuzz/fuzz_%.c,%,$(wildcard tests/fuzz/fuzz_*.c))
FUZZ_LAYERS := base host probe loop ring wire bootstrap local pass engine fab store kvclient kvserver kvbench kvcli
$(foreach k,smoke fuzz,$(addprefix $(B)/tests/fuzz/$(k)_,$(FUZZ))): LIBS += $(HTTP_LIBS)
$(addprefix $(B)/tests/fuzz/smoke_,$(FUZZ)): $(B)/tests/fuzz/smoke_%: $(B)/tests/fuzz/fuzz_%.c.o $(B)/tests/fuzz/standalone.c.o $(call a,$(FUZZ_LAYERS))
	$(test_link)
$(addprefix $(B)/tests/fuzz/fuzz_,$(FUZZ)): $(B)/tests/fuzz/fuzz_%: $(B)/tests/fuzz/fuzz_%.c.o $(call a,$(FUZZ_LAYERS))
	$(link) -fsanitize=fuzzer

# The tools of the benchmark are built where tests of theirs run: not for `make check` in a release build.
.PHONY: tests tests-long
tests-long: tests $(BENCH_TOOLS)
tests: $(if $(filter build/release,$(B)),,$(BENCH_TOOLS)) $(TESTS) $(B)/tests/sim/seeds $(PORT) $(addprefix $(B)/tests/integration/,embedder exists_time tenant_sessions) $(B)/tests/integration/stepped_clock.so $(B)/tests/quick_start.so $(SHIM_ENGINE) $(addprefix $(B)/tests/fuzz/smoke_,$(FUZZ)) $(PROGRAMS) library python

INTEGRATION := $(wildcard tests/integration/*.sh)

.PHONY: deps deps-more test check check-deb check-long check-python check-run check-repeat check-format format check-asan check-tsan check-clang check-epoll check-sim check-chaos soak check-port check-providers check-verbs check-engines check-tokens check-fault check-mutants check-valgrind check-shim check-shim-mutants check-all bench bench-phases fuzz
deps: ## install what building and testing need (KVRAIL_NO_INSTALL=1: say it instead)
	@scripts/install-deps.sh test

# A suite goes on without it: tests of programs that are not here are skipped.
deps-more: ## install what the long suites try KVRail with: etcd, Prometheus, Chromium, redis and more (KVRAIL_NO_INSTALL=1: say it instead)
	@scripts/install-deps.sh more || true

# T is LAYER/PROGRAM, or a path; CASE a test's name, with * and ?.
test: ## one test program: make test T=kvclient/test_borrowed CASE='borrowed*' (MODE=asan and others, too)
	@[ -n "$(T)" ] || { echo "make test: name a program: T=kvclient/test_get, or T=tests/integration/cli.sh" >&2; exit 2; }
	@$(MAKE) --no-print-directory -j$$(nproc) $(if $(filter %.sh %.py,$(T)),tests-long,$(B)/tests/$(patsubst tests/%,%,$(T)) programs)
	@KVRAIL_TEST_ONLY='$(CASE)' MODE=$(MODE) KVRAIL_BUILD=$(B) $(if $(filter %.sh %.py,$(T)),$(T),$(B)/tests/$(patsubst tests/%,%,$(T)))

check: deps ## set up, build and pass the tests (5 minutes on 2 cores, and the build)
	@$(MAKE) --no-print-directory -j$$(nproc) tests
	@$(MAKE) --no-print-directory check-run

# The simulation runs in one thread, where ThreadSanitizer can find nothing, and takes minutes under it.
RUN_TESTS = $(if $(filter tsan,$(MODE)),$(filter-out $(B)/tests/sim/test_sim_%,$(TESTS)),$(TESTS))
# Planted bugs are looked for in one build only. What takes long is left to check-long there, and done in the other builds.
RELEASE = $(filter build/release,$(B))
MUTANTS = $(if $(RELEASE),scripts/check-mutants.sh)
PLANTED = $(if $(RELEASE),scripts/check-planted.sh)
LONG := $(addprefix tests/integration/,acceptance.sh addresses.sh async.sh bench_tools.sh capacity.sh columns.sh deps.sh events.sh examples.sh install.sh keep_long.sh load.sh output.sh page.sh prometheus.sh rails.sh raw.sh members.sh scale.sh schema.sh sweep.sh tier_members.sh versus.sh) $(B)/tests/kvserver/test_many $(B)/tests/sim/test_sim_tiers
# These make a part of their rounds, or of their tests, in a release build's check (tests/short.h), and all in check-long.
SHORTENED = $(tests_sim) $(addprefix $(B)/tests/,hotpath/test_hotpath bootstrap/test_tls) $(B)/tests/local/test_channel $(B)/tests/kvclient/test_layout $(addprefix $(B)/tests/kvclient/,test_fork test_queue_storm) $(addprefix tests/integration/,bench.sh doctor.sh keep.sh lifetime.sh python.sh seal.sh tenants.sh trace.sh) tests/fuzz/smoke.sh tests/kvlab/test_kvlab.py tests/port/port.py scripts/check-format.sh $(PLANTED)
SHORT = $(if $(RELEASE),KVRAIL_TEST_SHORT=1)
# A process that starts without it takes 0.3 s longer (tests/quick_start.c).
PRELOAD = $(if $(RELEASE),LD_PRELOAD=$(CURDIR)/$(B)/tests/quick_start.so)
# Sanitizers see what these run in tests of functions: scale and sweep start kv-bench again and again, what members.sh
# parses is fuzzed under AddressSanitizer, and EFA's acceptance script takes three minutes under ThreadSanitizer.
LEFT_asan := $(addprefix tests/integration/,members.sh page.sh scale.sh schema.sh sweep.sh)
LEFT_tsan := $(addprefix tests/integration/,acceptance.sh page.sh scale.sh schema.sh sweep.sh)
LEFT = $(if $(RELEASE),$(LONG),$(LEFT_$(MODE)))
# What runs beside the others in five lanes, niced. COMPUTES has no clock. WAITS mostly sleeps: until programs have
# started, or a time of the product's is over. Nothing here counts what a neighbour could change: time, memory of the
# machine, calls or turns of a loop; and two of them do not make the same file. Limits are generous; those of port.py
# were made for busy machines.
COMPUTES = $(filter $(addprefix $(B)/tests/,base/% wire/% store/% sim/%),$(RUN_TESTS))
WAITS := $(addprefix tests/integration/,cli.sh prompt.sh trace.sh keep.sh tenants.sh tier_kill.sh doctor.sh options.sh defaults.sh help.sh messages.sh python.sh usage.sh http.sh fabric.sh security.sh run_tests.sh service.sh config.sh deploy.sh epoll.sh) tests/port/port.py tests/kvlab/test_kvlab.py tests/shim/engine.sh \
	$(addprefix $(B)/tests/,engine/test_door engine/test_conform engine/test_process kvclient/test_liar_landing kvclient/test_liar kvclient/test_liar_local kvclient/test_liar_pull kvclient/test_local_ends kvclient/test_events) \
	$(addprefix $(B)/tests/,kvserver/test_local kvserver/test_put kvserver/test_tier kvserver/test_session kvserver/test_hello bootstrap/test_tls bootstrap/test_conn)
# Under ThreadSanitizer members.sh takes as long as all of a lane's others, and a program may take longer than 300 s.
BESIDE_tsan := tests/integration/members.sh
LIMIT_tsan  := 900
# The longest first, so that the lanes end together.
FIRST_WAIT := tests/port/port.py $(addprefix $(B)/tests/,kvclient/test_liar_landing kvclient/test_liar engine/test_door kvclient/test_liar_local engine/test_conform) \
	$(addprefix tests/integration/,python.sh keep.sh prompt.sh cli.sh) $(addprefix $(B)/tests/,engine/test_process kvclient/test_local_ends kvclient/test_events)
FIRST_SIM := $(addprefix $(B)/tests/sim/test_sim_,clears deletes failover view rules peers settle pins guarantees rails belief deadlines)
BESIDE = $(filter-out $(LEFT),$(BESIDE_$(MODE)) $(MUTANTS) $(FIRST_WAIT) $(filter $(COMPUTES),$(FIRST_SIM)) $(PLANTED) $(filter-out $(FIRST_WAIT),$(WAITS)) $(filter-out $(FIRST_SIM),$(COMPUTES)) \
	scripts/check-layers.sh scripts/check-waits.sh scripts/check-rooms.py scripts/check-docs.sh scripts/check-format.sh tests/fault/points.sh tests/fuzz/smoke.sh)
# A name of a test that is gone would fail only where an old build has no such program any more.
MISNAMED = $(filter-out $(TESTS) $(tests_sim) $(wildcard $(LISTED)),$(LISTED))
LISTED  := $(WAITS) $(FIRST_WAIT) $(LONG) $(SHORTENED) $(FIRST_SIM) $(LEFT_asan) $(LEFT_tsan)
CHECK = $(filter-out $(LEFT),$(RUN_TESTS) tests/kvlab/test_kvlab.py $(B)/tests/shim/shim tests/shim/engine.sh $(INTEGRATION))
check-run: tests
	$(if $(MISNAMED),$(error suites.mk lists what is no test: $(MISNAMED)))
	@SHIM_QUICK=1 PORT_SHORT=1 PORT_SECONDS=$${PORT_SECONDS:-2} MUTANTS_SHARE=96 $(SHORT) $(PRELOAD) PKG_CFLAGS="$(PKG_CFLAGS)" JOBS=1 MODE=$(MODE) KVRAIL_BUILD=$(B) scripts/run-tests.sh -t $(or $(TEST_LIMIT),$(LIMIT_$(MODE)),300) -l $(or $(LOGS),$(B)/logs) -b "$(BESIDE)" $(filter-out $(BESIDE),$(CHECK))

# Hours. A test that fails in one of 50 rounds under load would fail for one user in fifty.
check-repeat: deps ## the tests of check again and again under load, with the names of those that fail (N=50; T="PROGRAM..." for some; LOAD=processes; ROUNDS_AT_ONCE=1)
	@$(MAKE) --no-print-directory -j$$(nproc) tests
	@MODE=$(MODE) KVRAIL_BUILD=$(B) scripts/repeat-check.sh -n $(or $(N),50) -p $(or $(ROUNDS_AT_ONCE),1) $(if $(LOAD),-l $(LOAD)) $(T)

# They mostly wait, for leases and silent servers.
LONG_WAITS := $(addprefix tests/integration/,members.sh tier_members.sh) tests/port/port.py
check-long: deps deps-more ## what check has no time for: all rounds and seeds, all planted bugs, members, capacity, loads, sweeps, files and rivals of kv-bench, tiers of a cluster, examples, Prometheus, rails, EFA's acceptance script (30 minutes)
	@$(MAKE) --no-print-directory -j$$(nproc) tests-long
	@PORT_SHORT=1 PORT_SECONDS=$${PORT_SECONDS:-30} $(PRELOAD) MODE=$(MODE) KVRAIL_BUILD=$(B) scripts/run-tests.sh -t $(or $(TEST_LIMIT),1200) -l $(B)/logs -b "$(LONG_WAITS) $(tests_sim)" \
		$(MUTANTS) $(filter-out $(LONG_WAITS) $(tests_sim),$(LONG) $(SHORTENED))

check-asan: deps ## the same under AddressSanitizer and UBSan
	@$(MAKE) --no-print-directory -j$$(nproc) MODE=asan tests
	@$(MAKE) --no-print-directory MODE=asan check-run

check-tsan: deps ## the same under ThreadSanitizer
	@$(MAKE) --no-print-directory -j$$(nproc) MODE=tsan tests
	@TSAN_OPTIONS="suppressions=$(CURDIR)/tests/tsan.supp $$TSAN_OPTIONS" $(MAKE) --no-print-directory MODE=tsan check-run

check-format: ## the layout of C files and the width of Markdown (a part of check, where clang-format 19 is installed)
	@scripts/install-deps.sh format
	@scripts/check-format.sh

format: ## lay the C files out by clang-format 19
	@scripts/install-deps.sh format
	@scripts/check-format.sh --fix

check-clang: ## build everything with clang, without a warning, and run the tests
	@scripts/install-deps.sh clang
	@$(MAKE) --no-print-directory -j$$(nproc) CC=clang tests
	@$(MAKE) --no-print-directory CC=clang check-run

# Loops where io_uring is forbidden. What speaks of io_uring itself is left out (epoll.sh and doctor.sh have filters of
# their own), and what loops have no part in.
ON_EPOLL = $(tests_loop) $(tests_local) $(tests_bootstrap) $(tests_engine) $(tests_kvserver) $(tests_kvclient) $(tests_kvbench) $(tests_kvcli) $(tests_hotpath) $(addprefix tests/integration/,acceptance.sh defaults.sh bench.sh async.sh cli.sh lifetime.sh security.sh trace.sh rails.sh capacity.sh events.sh examples.sh fabric.sh http.sh load.sh members.sh prometheus.sh python.sh service.sh)
check-epoll: deps ## loop, client, server and programs where a seccomp filter forbids io_uring (10 minutes; a short part is in check)
	@$(MAKE) --no-print-directory -j$$(nproc) tests
	@MODE=$(MODE) KVRAIL_BUILD=$(B) tests/integration/no_uring.py scripts/run-tests.sh -t $(or $(TEST_LIMIT),600) -l $(B)/logs/epoll $(ON_EPOLL)

SEEDS ?= 200
FIRST ?= 1
JOBS  ?= $(shell nproc)
check-sim: deps ## many simulated worlds, with and without trouble (SEEDS=200 FIRST=1 JOBS=n)
	@$(MAKE) --no-print-directory -j$$(nproc) $(B)/tests/sim/seeds
	@KVRAIL_SIM_FIRST=$(FIRST) KVRAIL_SIM_SEEDS=$(SEEDS) KVRAIL_SIM_JOBS=$(JOBS) scripts/run-tests.sh -t 36000 -l $(B)/logs $(B)/tests/sim/seeds

CHAOS := $(patsubst %.c,$(B)/%,$(wildcard tests/chaos/*.c))
check-chaos: deps ## real processes killed, stopped, cut off and starved (about 10 minutes; CHAOS_KILLS=100 for more, KVRAIL_TEST_PROVIDER=tcp-native for other providers)
	@$(MAKE) --no-print-directory -j$$(nproc) programs $(CHAOS)
	@KVRAIL_BUILD=$(B) scripts/run-tests.sh -t 1800 -l $(B)/logs tests/chaos/run.sh tests/chaos/soak.py

# A whole storm takes a minute longer than its events: calls have up to 20 s, and an event that has begun ends.
soak: deps ## a storm of servers that join, leave, drain, die, stand still and lie, under calls of every kind (SECONDS=600 SEED=n; an hour: SECONDS=3600)
	@$(MAKE) --no-print-directory -j$$(nproc) programs $(B)/tests/chaos/soak
	@KVRAIL_BUILD=$(B) tests/chaos/soak.py --seconds $(or $(SECONDS),600) --seed $(or $(SEED),$$(od -An -N4 -tu4 /dev/urandom | tr -d ' '))

check-port: deps ## strangers and neighbours at the fabric ports: every known attack, and mutations for PORT_SECONDS=60 (20 minutes; a short part is in check)
	@$(MAKE) --no-print-directory -j$$(nproc) programs $(PORT)
	@KVRAIL_BUILD=$(B) scripts/run-tests.sh -t $$(($${PORT_SECONDS:-60} + 3600)) -l $(B)/logs tests/port/port.py

FABRIC_TESTS := $(tests_engine) $(tests_kvserver) $(tests_kvclient) $(tests_hotpath) $(addprefix tests/integration/,bench.sh async.sh cli.sh security.sh trace.sh rails.sh capacity.sh)
PROVIDERS ?= tcp-native net shm
check-providers: deps ## the tests that use a fabric, over other providers (PROVIDERS="tcp-native net shm"; skips what is not here; 8 minutes each)
	@$(MAKE) --no-print-directory -j$$(nproc) tests
	@PROVIDERS="$(PROVIDERS)" MODE=$(MODE) KVRAIL_BUILD=$(B) scripts/check-providers.sh -l $(B)/logs $(FABRIC_TESTS)

check-verbs: ## on real verbs: Soft-RoCE in a virtual machine, with KVM or without (5 to 15 minutes; skips, with the reason, where it cannot run)
	@scripts/install-deps.sh verbs || true
	@$(MAKE) --no-print-directory -j$$(nproc) programs $(tests_engine) $(tests_host) $(B)/tests/chaos/load
	@KVRAIL_BUILD=$(B) scripts/run-tests.sh -t 3000 -l $(B)/logs tests/verbs/run.sh tests/verbs/memory.sh

# An engine is tests/engines/NAME.sh, a TAP program of its own, and NAME.txt, its packages.
ENGINES ?= $(patsubst tests/engines/%.sh,%,$(wildcard tests/engines/*.sh))
check-engines: deps ## the real LMCache, vLLM, SGLang, NIXL and transformers on CPUs with kvrail (ENGINES=lmcache; needs the package index once; 15 minutes)
	@$(MAKE) --no-print-directory -j$$(nproc) programs library
	@for e in $(ENGINES); do KVRAIL_BUILD=$(B) timeout -k 10 3600 tests/engines/$$e.sh environment >/dev/null </dev/null; done
	@KVRAIL_BUILD=$(B) scripts/run-tests.sh -t $(or $(TEST_LIMIT),1800) -l $(B)/logs $(patsubst %,tests/engines/%.sh,$(ENGINES))

check-tokens: ## one of check-engines: small random models of transformers compute the same tokens with and without kvrail.hf (downloads 230 MB once; 1 minute)
	@$(MAKE) --no-print-directory check-engines ENGINES=tokens

check-fault: deps ## fail every fallible call of ours once, under ASan (5 minutes with KVRAIL_FAULT_ONCE=1, else 30)
	@$(MAKE) --no-print-directory -j$$(nproc) MODE=asan build/asan/tests/fault/sweep
	@KVRAIL_BUILD=build/asan scripts/run-tests.sh -t 5400 -l build/asan/logs tests/fault/points.sh build/asan/tests/fault/sweep tests/fault/epoll.sh

check-shim: deps ## engine and programs on imitated EFA and InfiniBand machines (12 minutes, or SHIM_PAIRS=efa:efa,verbs:verbs for some of them; a short part is in check)
	@$(MAKE) --no-print-directory -j$$(nproc) programs $(SHIM_ENGINE) $(B)/tests/shim/shim.so $(tests_kvclient)
	@KVRAIL_BUILD=$(B) scripts/run-tests.sh -t 1200 -l $(B)/logs $(B)/tests/shim/shim tests/shim/engine.sh tests/shim/run.sh

check-shim-mutants: deps ## break rules of docs/internals/providers.md one at a time and see an imitated machine tell (5 minutes)
	@$(MAKE) --no-print-directory -j$$(nproc) MODE=release programs $(addprefix build/release/tests/shim/,conform process attach shim shim.so)
	@MODE=release KVRAIL_BUILD=build/release scripts/run-tests.sh -t 1800 -l build/release/logs tests/shim/mutants.sh

check-mutants: deps ## plant bugs and see the simulation, or a test, find each of them (every 96th in check; ten minutes)
	@$(MAKE) --no-print-directory -j$$(nproc) MODE=release build/release/kv-server build/release/tests/sim/test_sim_rules $$(sed -n 's|^program: |build/release/|p' tests/sim/mutants/*.patch | sort -u)
	@MODE=release KVRAIL_BUILD=build/release scripts/run-tests.sh -t 3000 -l build/release/logs scripts/check-mutants.sh

# Preloaded by the test; without valgrind's headers there is none, and the test says so.
$(B)/tests/valgrind/uring.so: tests/valgrind/uring.c
	@mkdir -p $(@D)
	$(Q)if [ -e /usr/include/valgrind/memcheck.h ]; then $(CC) $(ALL_CFLAGS) -shared -o $@ $< -luring -ldl; fi

check-deb: deb ## the packages in a bare root: installed, used, removed; the steps of the container file (as root, with debootstrap; 10 minutes)
	@scripts/run-tests.sh -t 1200 -l $(B)/logs tests/packages/deb.sh tests/packages/container.sh

check-python: programs wheel ## the Python package as its wheel in a virtual environment: tests, types (mypy from the package index), its documents
	@KVRAIL_BUILD=$(B) scripts/run-tests.sh -t 600 -l $(B)/logs python/tests/wheel.sh

check-valgrind: deps ## server, client and benchmark under valgrind, where it is installed, what a GET costs with many servers, and what measuring it costs (about 7 minutes)
	@$(MAKE) --no-print-directory -j$$(nproc) programs $(B)/tests/valgrind/uring.so $(B)/tests/sim/test_sim_many
	@KVRAIL_BUILD=$(B) scripts/run-tests.sh -t 900 -l $(B)/logs tests/valgrind/run.sh tests/valgrind/flat.py tests/valgrind/measuring.sh

check-all: check check-long check-clang check-asan check-tsan check-epoll check-sim check-chaos check-port check-providers check-verbs check-fault check-valgrind check-python check-engines check-shim check-shim-mutants check-deb ## every suite

bench: ## compare with redis, memcached and bare libfabric, and write docs/runs/bench.md (30 minutes; BENCH="redis shm" PAIRS=7 BENCH_QUICK=1)
	@$(MAKE) --no-print-directory -j$$(nproc) programs $(BENCH_TOOLS)
	@KVRAIL_BUILD=$(B) tests/bench/run.py --doc $(BENCH)

bench-phases: $(B)/tests/valgrind/uring.so ## where a GET's time goes and its instructions, by phase (5 minutes; instructions need valgrind)
	@$(MAKE) --no-print-directory -j$$(nproc) programs $(B)/tests/bench/c2c
	@KVRAIL_BUILD=$(B) tests/bench/breakdown.py
	@KVRAIL_BUILD=$(B) tests/bench/instructions.py

TIME ?= 60
fuzz: ## libFuzzer on every target for TIME seconds each (needs clang)
	@$(MAKE) --no-print-directory -j$$(nproc) CC=clang MODE=fuzz B=build/fuzz $(addprefix build/fuzz/tests/fuzz/fuzz_,$(FUZZ))
	@scripts/fuzz.sh $(TIME) $(FUZZ)
