# SPDX-License-Identifier: Apache-2.0
# KVRail: one Makefile. `make help` lists the targets; MODE=release|debug|asan|tsan|cov and CC=gcc|clang choose the build.

MODE ?= release
B    := build/$(MODE)$(if $(filter clang%,$(CC)),-clang)

VERSION := 0.1.0
PREFIX  ?= /usr/local
PKGS    := libfabric liburing openssl libxxhash jansson libedit zlib

# On an EFA instance the installer's libfabric is the one to build and run with: two in one process is what breaks NCCL.
comma := ,
EFA_ROOT   := $(or $(KVRAIL_EFA_ROOT),/opt/amazon/efa)
EFA_LIB    := $(patsubst %/pkgconfig/libfabric.pc,%,$(firstword $(wildcard $(EFA_ROOT)/lib64/pkgconfig/libfabric.pc $(EFA_ROOT)/lib/pkgconfig/libfabric.pc)))
PKG_CONFIG := $(if $(EFA_LIB),PKG_CONFIG_PATH=$(EFA_LIB)/pkgconfig:$$PKG_CONFIG_PATH )pkg-config
PKG_CFLAGS := $(shell $(PKG_CONFIG) --cflags $(PKGS) 2>/dev/null)
# Events over ZeroMQ are left out where its library is missing.
ZMQ_LIBS   := $(shell pkg-config --libs libzmq 2>/dev/null)
HTTP_LIBS  := $(shell pkg-config --libs libmicrohttpd libcurl 2>/dev/null || echo -lmicrohttpd -lcurl)
PKG_LIBS   := $(shell $(PKG_CONFIG) --libs $(PKGS) 2>/dev/null) $(if $(EFA_LIB),-Wl$(comma)-rpath$(comma)$(EFA_LIB))
WARN    := -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wvla -Wundef -Werror
CFLAGS_release := -O2 -g -DNDEBUG -D_FORTIFY_SOURCE=2
CFLAGS_debug   := -O0 -g3 -DKVRAIL_DEBUG
CFLAGS_asan    := -O1 -g -fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize-recover=undefined
CFLAGS_tsan    := -O1 -g -fno-omit-frame-pointer -fsanitize=thread
CFLAGS_cov     := -O0 -g --coverage
CFLAGS_fuzz    := -O1 -g -fno-omit-frame-pointer -fsanitize=address,undefined,fuzzer-no-link
ALL_CFLAGS  = -std=gnu11 -D_GNU_SOURCE -I. -fPIC -pthread -fvisibility=hidden $(WARN) -DKVRAIL_VERSION='"$(VERSION)"' $(CFLAGS_$(MODE)) $(PKG_CFLAGS) $(CFLAGS)
# No lazy binding: besides being writable, its resolver saves vector registers on the stack, and a key may be in them.
ALL_LDFLAGS = -pthread -Wl,-z,relro,-z,now $(filter -fsanitize% --coverage,$(CFLAGS_$(MODE))) $(LDFLAGS)
LIBS        = -Wl,--as-needed $(PKG_LIBS) -libverbs -ldl -lm

Q := $(if $(V),,@)# V=1 shows the commands

# A layer is a folder; `ring`, `pass` and `fab` are link-time seams (io_uring, Unix sockets and libfabric, or simulated ones).
LAYERS   := base host probe loop ring wire bootstrap local pass engine fab store kvclient kvserver kvbench kvcli kvdoctor
src_ring := $(wildcard loop/ring_*.c)
src_loop := $(filter-out $(src_ring),$(wildcard loop/*.c loop/*.S))
src_fab  := $(wildcard engine/fabric/*.c engine/door/*.c)
src_pass := $(wildcard local/pass*.c)
src_local := $(filter-out $(src_pass),$(wildcard local/*.c))
src_engine := $(wildcard engine/*.c)
$(foreach l,base host probe wire bootstrap store kvclient kvserver kvbench kvcli kvdoctor,$(eval src_$(l) := $(filter-out $(l)/main.c,$(wildcard $(l)/*.c $(l)/*/*.c))))
objs = $(addprefix $(B)/,$(addsuffix .o,$(1)))

.PHONY: all
all: programs library ## build the programs and the library (default)

define layer_rule
$(B)/lib$(1).a: $(call objs,$(src_$(1)))
	@rm -f $$@; ar qcs $$@ $$^
endef
$(foreach l,$(LAYERS),$(eval $(call layer_rule,$(l))))

$(B)/%.c.o: %.c
	@mkdir -p $(@D)
	$(if $(V),,@echo "  CC    $@")
	$(Q)$(CC) $(ALL_CFLAGS) -MMD -MP -c -o $@ $<
$(B)/%.S.o: %.S
	@mkdir -p $(@D)
	$(if $(V),,@echo "  CC    $@")
	$(Q)$(CC) $(ALL_CFLAGS) -MMD -MP -c -o $@ $<

a = $(patsubst %,$(B)/lib%.a,$(1))
link = $(if $(V),,@echo "  LINK  $@";) $(CC) $(ALL_LDFLAGS) -o $@ $(filter %.o,$^) -Wl,--start-group $(filter %.a,$^) -Wl,--end-group $(LIBS)

# Programs and the library: which layers each may link is the table in docs/internals/architecture.md.
CLIENT_LAYERS := base host loop ring wire bootstrap local pass engine fab kvclient
SERVER_LAYERS := base host loop ring wire bootstrap local pass engine fab store kvclient kvserver
DOCTOR_LAYERS := $(CLIENT_LAYERS)
PROGRAMS := $(addprefix $(B)/,kv-server kv-bench kv-client kv-doctor)
.PHONY: programs library
programs: $(PROGRAMS)
library: $(B)/libkvrail.so.0 $(B)/libkvrail.a $(B)/embed
# Of all that is built, kv-server alone has libmicrohttpd, libcurl and libzmq.
$(B)/kv-server: LIBS += $(HTTP_LIBS) $(ZMQ_LIBS)
$(B)/kvserver/events/zmq.c.o: CFLAGS += $(if $(ZMQ_LIBS),-DKVRAIL_ZMQ)
$(B)/kv-server: $(B)/kvserver/main.c.o $(call a,$(SERVER_LAYERS))
	$(link)
# What works on reports is Python: pages, charts, comparisons, sweeps. kv-bench finds it beside itself.
KVLAB := $(wildcard kvlab/*.py)
$(B)/kvlab/.made: $(KVLAB)
	$(Q)rm -rf $(@D) && mkdir -p $(@D) && cp $^ $(@D) && touch $@
$(B)/kv-bench: $(B)/kvbench/main.c.o $(call a,$(CLIENT_LAYERS) probe store kvbench) $(B)/kvlab/.made
	$(link)
$(B)/kv-client: $(B)/kvcli/main.c.o $(call a,$(CLIENT_LAYERS) kvcli)
	$(link)
$(B)/kv-doctor: $(B)/kvdoctor/main.c.o $(call a,$(DOCTOR_LAYERS) probe kvdoctor)
	$(link)
CLIENT_OBJS := $(foreach l,$(CLIENT_LAYERS),$(call objs,$(src_$(l))))
$(B)/libkvrail.so.0: $(CLIENT_OBJS)
	$(if $(V),,@echo "  LINK  $@")
	$(Q)$(CC) $(ALL_LDFLAGS) -shared -Wl,-soname,libkvrail.so.0 -o $@ $^ $(LIBS)
	@ln -sf libkvrail.so.0 $(B)/libkvrail.so
# One object, in which only what the shared library exports is global: a program may have names of its own for all else.
$(B)/libkvrail.a: $(CLIENT_OBJS) $(B)/libkvrail.so.0
	@rm -f $@; nm -D --defined-only $(B)/libkvrail.so.0 | sed 's/.* //' | grep '^kvc_' > $(B)/exported
	$(Q)$(CC) -r -nostdlib -o $(B)/kvrail.o $(CLIENT_OBJS)
	$(Q)objcopy --keep-global-symbols=$(B)/exported $(B)/kvrail.o && ar rcs $@ $(B)/kvrail.o

# For python/setup.py: the static library with its headers, and what it is linked with.
.PHONY: static static-flags
static: $(B)/libkvrail.a $(B)/include/kvrail/kvclient.h $(B)/include/kvrail/codes.h
static-flags:
	@echo '$(B) $(LIBS)'

# What an embedding program includes, and programs that embed the library as if they were somebody else's: the installed headers and the shared library alone.
HEADERS := $(addprefix $(B)/include/kvrail/,kvclient.h codes.h)
$(B)/include/kvrail/kvclient.h: kvclient/kvclient.h
$(B)/include/kvrail/codes.h: base/codes.h
$(HEADERS):
	@mkdir -p $(@D)
	$(Q)sed 's|#include "base/codes.h".*|#include "codes.h"|' $< > $@
embedding = $(if $(V),,@echo "  LINK  $@";) mkdir -p $(@D); $(CC) $(filter-out -I.,$(ALL_CFLAGS)) -I$(B)/include $(ALL_LDFLAGS) -o $@ $< -L$(B) -lkvrail -Wl,-rpath,'$$ORIGIN$(1)'
$(B)/embed: examples/embed.c $(B)/libkvrail.so.0 $(HEADERS)
	$(call embedding)

# The Python package (docs/guide/python.md), for tests: the extension without setuptools, and what is written in Python. Without Python.h of 3.11 or newer it is not made.
PYTHON ?= python3
.PHONY: python wheel
python: $(B)/python/kvrail/.made
$(B)/python/kvrail/.made: $(wildcard python/kvrail/*) python/kvrail_vllm_plugin.py $(B)/libkvrail.a $(HEADERS)
	$(Q)rm -rf $(@D) && mkdir -p $(@D) && cp $(filter-out %.so %.c %.h %__pycache__,$(filter python/kvrail/%,$^)) $(@D) && cp $(filter python/%_plugin.py,$^) $(@D)/..
	$(if $(V),,@echo "  LINK  $(@D)/_native.abi3.so")
	$(Q)include=$$(python/headers.py) || exit 0; $(CC) $(filter-out -I.,$(ALL_CFLAGS)) -I$(B)/include -isystem "$$include" -DPy_LIMITED_API=0x030B0000 $(filter-out -Wl$(comma)-z$(comma)defs,$(ALL_LDFLAGS)) -shared -o $(@D)/_native.abi3.so \
		$(filter %.c,$^) $(B)/libkvrail.a -Wl,--exclude-libs,ALL $(LIBS)
	@[ ! -e $(@D)/_native.abi3.so ] || touch $@

wheel: ## the Python package as a wheel in build/, linked to this tree's library (PYTHON=python3)
	$(Q)mkdir -p build && KVRAIL_LIBRARY=tree $(PYTHON) -m pip wheel -q --no-deps -w build ./python && ls build/kvrail-$(VERSION)-*.whl

# NIXL's plug-in (docs/guide/nixl.md), for the two versions of its interface; NIXL=DIR: for that of the user's headers alone.
CXX        ?= g++
CXXFLAGS_ALL = -std=c++20 -I. -fPIC -pthread -fvisibility=hidden $(filter-out -Wstrict-prototypes -Wmissing-prototypes,$(WARN)) $(CFLAGS_$(MODE)) $(CXXFLAGS)
NIXL_API   := $(if $(NIXL),headers,api1 api2)
NIXL_SRC   := $(wildcard nixl/*.cc)
NIXL_FOUND  = $(shell find -L $(NIXL) '(' -path '*/backend/backend_plugin.h' -o -path '*/common/nixl_time.h' -o -name telemetry_event.h -o -name nixl_types.h ')' -printf '%h\n' 2>/dev/null | sed -E 's,/(backend|common)$$,,' | sort -u)
nixl_flags_api1    := -DKVRAIL_NIXL_API=1
nixl_flags_api2    := -DKVRAIL_NIXL_API=2
nixl_flags_headers  = -DKVRAIL_NIXL_HEADERS -Inixl/stand-in $(addprefix -isystem ,$(NIXL_FOUND))
nixl_so = $(B)/nixl/$(1)/libplugin_KVRAIL.so
.PHONY: nixl nixl-headers
nixl-headers:
	@printf '%s\n' $(NIXL_FOUND)
nixl: $(foreach v,$(NIXL_API),$(call nixl_so,$(v))) ## the plug-in for NIXL (NIXL=DIR: with the headers in DIR; docs/guide/nixl.md)
define nixl_rule
$(B)/nixl/$(1)/%.o: nixl/%.cc
	@mkdir -p $$(@D)
	$(if $(V),,@echo "  CXX   $$@")
	$(Q)$$(CXX) $$(CXXFLAGS_ALL) $$(nixl_flags_$(1)) -MMD -MP -c -o $$@ $$<
$(call nixl_so,$(1)): $(patsubst nixl/%.cc,$(B)/nixl/$(1)/%.o,$(NIXL_SRC)) $(B)/libkvrail.a nixl/exports.map
	$(if $(V),,@echo "  LINK  $$@")
	$(Q)$$(CXX) $$(ALL_LDFLAGS) -shared -Wl,-soname,libplugin_KVRAIL.so -Wl,--version-script=nixl/exports.map -o $$@ $$(filter-out %.map,$$^) $$(LIBS)
	@ln -sf libplugin_KVRAIL.so $$(@D)/libplugin_OBJ.so
endef
$(foreach v,api1 api2 headers,$(eval $(call nixl_rule,$(v))))
# What stands in for NIXL in tests.
$(B)/tests/nixl/host: tests/nixl/host.cc nixl/interface.h
	@mkdir -p $(@D)
	$(if $(V),,@echo "  LINK  $@")
	$(Q)$(CXX) $(CXXFLAGS_ALL) $(nixl_flags_api2) $(ALL_LDFLAGS) -o $@ $< -ldl

include tests/suites.mk

.PHONY: install uninstall options-page deb abi clean help
# What is installed, as MODE:FILE:FOLDER; `uninstall` removes the same. The .pc says what the static library needs: what the linker found the shared one to need.
LIBDIR     ?= $(PREFIX)/lib
SHARE      := $(PREFIX)/share
MANUALS    := $(patsubst $(B)/%,$(B)/share/%.1,$(PROGRAMS))
API        := base/codes.h kvclient/kvclient.h
MANUALS_3   = $(patsubst %,$(B)/share/man3/%.3,$(shell awk -v list=1 -f scripts/man-api.awk $(API)))
COMPLETION := $(patsubst $(B)/%,$(B)/share/completion/%,$(PROGRAMS))
CMAKE      := $(addprefix $(B)/share/,kvrailConfig.cmake kvrailConfigVersion.cmake)
EXAMPLES   := $(wildcard examples/*.c examples/*.cc)
DOCS       := $(wildcard $(addprefix docs/,*.md */*.md */*/*.md */*.json))
# Links of installed documents to what is not installed become text.
NOT_INSTALLED := base|deploy|engine|kvclient|kvserver|local|loop|nixl|python|scripts|store|tests|wire
put = $(foreach f,$(2),$(1):$(f):$(3))
INSTALLED = $(call put,755,$(PROGRAMS),$(PREFIX)/bin) $(call put,755,$(B)/libkvrail.so.0,$(LIBDIR)) $(call put,644,$(B)/libkvrail.a,$(LIBDIR)) \
	$(call put,644,$(B)/share/kvrail.pc,$(LIBDIR)/pkgconfig) $(call put,644,$(CMAKE),$(LIBDIR)/cmake/kvrail) $(call put,644,$(HEADERS),$(PREFIX)/include/kvrail) \
	$(call put,644,$(MANUALS),$(SHARE)/man/man1) $(call put,644,$(MANUALS_3),$(SHARE)/man/man3) \
	$(call put,644,README.md CHANGELOG.md LICENSE,$(SHARE)/doc/kvrail) $(foreach f,$(DOCS),644:$(f):$(SHARE)/doc/kvrail/$(patsubst %/,%,$(dir $(f)))) $(call put,644,$(EXAMPLES),$(SHARE)/doc/kvrail/examples) \
	$(call put,644,$(COMPLETION),$(SHARE)/bash-completion/completions) $(call put,644,$(KVLAB),$(SHARE)/kvrail/kvlab)
$(B)/share/%.1: $(B)/% scripts/man-page.sh
	@mkdir -p $(@D)
	$(Q)scripts/man-page.sh $* $(B) > $@.new && mv $@.new $@
$(B)/share/man3/kvclient.3: $(API) scripts/man-api.awk
	@rm -rf $(@D) && mkdir -p $(@D)
	$(Q)awk -v dir=$(@D) -v version=$(VERSION) -f scripts/man-api.awk $(API)
INSTALLED += $(call put,644,$(B)/docs/options.md,$(SHARE)/doc/kvrail/docs/reference)
$(B)/docs/options.md: $(PROGRAMS) scripts/options-doc.sh run-with-rdma.sh
	@mkdir -p $(@D)
	$(Q)scripts/options-doc.sh $(B) > $@.new && mv $@.new $@
$(B)/share/completion/%: $(B)/% scripts/completion.sh
	@mkdir -p $(@D)
	$(Q)scripts/completion.sh $* $(B) > $@.new && mv $@.new $@

# A name in the list above ends at a blank or a colon: half a path is not to be written to, and still less removed from.
placed = $(if $(or $(filter-out /%,$(PREFIX) $(LIBDIR)),$(filter-out 2,$(words $(PREFIX) $(LIBDIR))),$(findstring :,$(PREFIX)$(LIBDIR))),$(error PREFIX and LIBDIR must be absolute paths without blanks and colons: '$(PREFIX)', '$(LIBDIR)'))
install: all $(HEADERS) $(MANUALS) $(B)/share/man3/kvclient.3 $(COMPLETION) $(B)/docs/options.md ## programs, library, headers, manuals and documents below PREFIX=/usr/local (LIBDIR, DESTDIR; docs/guide/embedding.md)
	$(placed)$(Q)needed=$$(readelf -d $(B)/libkvrail.so.0 | sed -n 's/.*(NEEDED).*\[lib\(.*\)\.so.*/-l\1/p' | grep -vx -e -lc | tr '\n' ' '); printf '%s\n' 'prefix=$(PREFIX)' 'libdir=$(LIBDIR)' 'includedir=$${prefix}/include' \
		'Name: kvrail' 'Description: client library of KVRail: blocks of KV cache over libfabric' 'Version: $(VERSION)' 'Cflags: -I$${includedir}' 'Libs: -L$${libdir} -lkvrail' \
		"Libs.private: $(if $(EFA_LIB),-L$(EFA_LIB) -Wl$(comma)-rpath$(comma)$(EFA_LIB) )$${needed}-pthread" > $(B)/share/kvrail.pc
	$(Q)for f in $(notdir $(CMAKE)); do sed 's|@UP@|$(shell realpath -m --relative-to=$(LIBDIR)/cmake/kvrail $(PREFIX))|; s|@VERSION@|$(VERSION)|; s|@MINOR@|$(basename $(VERSION))|' deploy/cmake/$$f.in > $(B)/share/$$f || exit 1; done
	$(Q)for f in $(INSTALLED); do from=$${f#*:} to=$${f##*:}; from=$${from%%:*}; install -D -m "$${f%%:*}" "$$from" "$(DESTDIR)$$to/$${from##*/}" || exit 1; done
	$(Q)ln -sf libkvrail.so.0 "$(DESTDIR)$(LIBDIR)/libkvrail.so"
	$(Q)find "$(DESTDIR)$(SHARE)/doc/kvrail" -name '*.md' -exec sed -Ei 's#\[([^]]*)\]\((\.\./)*($(NOT_INSTALLED))/[^)]*\)#\1#g' {} +

.PHONY: install-nixl
NIXL_DIR = $(DESTDIR)$(LIBDIR)/kvrail/nixl
install-nixl: nixl ## the plug-in for NIXL, below LIBDIR/kvrail/nixl (docs/guide/nixl.md)
	$(placed)$(Q)for v in $(NIXL_API); do install -D -m 755 $(B)/nixl/$$v/libplugin_KVRAIL.so "$(NIXL_DIR)/$$v/libplugin_KVRAIL.so" && ln -sf libplugin_KVRAIL.so "$(NIXL_DIR)/$$v/libplugin_OBJ.so" || exit 1; done

uninstall: ## remove what install has put there (with the same PREFIX, LIBDIR and DESTDIR)
	$(placed)$(Q)for f in $(INSTALLED); do from=$${f#*:} to=$${f##*:}; from=$${from%%:*}; rm -f "$(DESTDIR)$$to/$${from##*/}"; done
	$(Q)rm -f "$(DESTDIR)$(LIBDIR)/libkvrail.so"
	$(Q)for v in api1 api2 headers; do rm -f "$(NIXL_DIR)/$$v/libplugin_KVRAIL.so" "$(NIXL_DIR)/$$v/libplugin_OBJ.so"; done
	$(Q)for d in $(LIBDIR)/kvrail $(PREFIX)/include/kvrail $(SHARE)/doc/kvrail $(SHARE)/kvrail $(LIBDIR)/cmake/kvrail; do [ ! -d "$(DESTDIR)$$d" ] || find "$(DESTDIR)$$d" -depth -type d -empty -delete; done

options-page: $(B)/docs/options.md ## the options of all programs on one page, build/release/docs/options.md

deb: ## packages for Debian and Ubuntu, in build/deb: kvrail-tools, libkvrail0, libkvrail-dev, python3-kvrail
	@scripts/install-deps.sh deb
	$(Q)rm -rf build/deb && mkdir -p build/deb/kvrail-$(VERSION) && tar --exclude=./build --exclude=./.git -cf - . | tar -xf - -C build/deb/kvrail-$(VERSION)
	@echo "  DEB   build/deb/build.log (some minutes)"
	$(Q)cd build/deb/kvrail-$(VERSION) && dpkg-buildpackage -us -uc -b > ../build.log 2>&1 || { tail -n 40 ../build.log; exit 1; }
	$(Q)rm -rf build/deb/kvrail-$(VERSION) && ls build/deb/*.deb

abi: ## announce a change of the library's ABI: write debian/libkvrail0.abi and new functions into debian/libkvrail0.symbols
	@CC="$(CC)" scripts/abi.py --write $(VERSION)

clean: ## remove build/
	rm -rf build

help: ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  make \1\t\2/' | expand -t 24

-include $(shell find $(B) -name '*.d' 2>/dev/null)
