/* SPDX-License-Identifier: Apache-2.0 */
/* host.cc PLUGIN VERSION SERVER -- stands in for NIXL: loads the plug-in as NIXL does, and calls it through the
 * interface. For versions of the interface that no released NIXL has yet, and for sanitizers. Status 0: all is right.
 */
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "nixl/interface.h"

namespace
{

#define MUST(condition)                                                                                                \
	do {                                                                                                           \
		if (!(condition)) {                                                                                    \
			fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);                        \
			_exit(1);                                                                                      \
		}                                                                                                      \
	} while (0)

const size_t SIZE = 256 << 10, VALUES = 16;

struct agent {
	nixlBackendPlugin *plugin;
	nixlBackendEngine *engine;
	std::vector<char> memory;
	nixlBackendMD *dram;
	std::vector<nixlBackendMD *> objects;

	nixlBackendEngine *create(nixl_b_params_t params)
	{
		nixlBackendInitParams init;
		init.localAgent = "host";
		init.type = "KVRAIL";
		init.customParams = &params;
		return plugin->create_engine(&init);
	}

	void open(const char *server)
	{
		nixlBlobDesc all;
		engine = create({{"servers", server}, {"timeout", "5"}, {"num_clients", "1"}});
		MUST(engine && engine->getType() == "KVRAIL" && engine->supportsLocal() && !engine->supportsRemote());
		MUST(engine->connect("host") == NIXL_SUCCESS);
		memory.resize(SIZE * VALUES);
		all.addr = (uintptr_t)memory.data();
		all.len = memory.size();
		all.devId = 0;
		MUST(engine->registerMem(all, DRAM_SEG, dram) == NIXL_SUCCESS);
		for (size_t i = 0; i < VALUES; i++) {
			nixlBackendMD *md = nullptr, *local = nullptr;
			nixlBlobDesc value = named("host/" + std::to_string(i));
			MUST(engine->registerMem(value, OBJ_SEG, md) == NIXL_SUCCESS);
			MUST(engine->loadLocalMD(md, local) == NIXL_SUCCESS);
			objects.push_back(local);
		}
	}

	void close()
	{
		for (nixlBackendMD *md : objects)
			MUST(engine->unloadMD(md) == NIXL_SUCCESS && engine->deregisterMem(md) == NIXL_SUCCESS);
		MUST(engine->deregisterMem(dram) == NIXL_SUCCESS);
		MUST(engine->disconnect("host") == NIXL_SUCCESS);
		plugin->destroy_engine(engine);
	}

	static nixlBlobDesc named(const std::string &key)
	{
		nixlBlobDesc desc;
		desc.addr = 0;
		desc.len = SIZE;
		desc.devId = 7;
		desc.metaInfo = key;
		return desc;
	}

	/* A transfer of the first n values. */
	nixlBackendReqH *post(nixl_xfer_op_t op, size_t n)
	{
		nixl_meta_dlist_t local(DRAM_SEG), remote(OBJ_SEG);
		nixlBackendReqH *handle = nullptr;
		for (size_t i = 0; i < n; i++) {
			nixlMetaDesc here, there;
			here.addr = (uintptr_t)memory.data() + i * SIZE;
			there.addr = 0;
			here.len = there.len = SIZE;
			here.devId = there.devId = i;
			here.metadataP = dram;
			there.metadataP = objects[i];
			local.add(here);
			remote.add(there);
		}
		MUST(engine->prepXfer(op, local, remote, "host", handle) == NIXL_SUCCESS && handle);
		MUST(engine->postXfer(op, local, remote, "host", handle) == NIXL_IN_PROG);
		return handle;
	}

	nixl_status_t run(nixl_xfer_op_t op, size_t n)
	{
		nixlBackendReqH *handle = post(op, n);
		nixl_status_t status = NIXL_IN_PROG;
		while (status == NIXL_IN_PROG)
			status = engine->checkXfer(handle);
		MUST(engine->checkXfer(handle) == status);
		MUST(engine->releaseReqH(handle) == NIXL_SUCCESS);
		return status;
	}

	bool filled(char with) const
	{
		return memory[0] == with && memcmp(memory.data(), memory.data() + 1, memory.size() - 1) == 0;
	}
};

void transfers(agent *a)
{
	std::vector<char> wanted;
	std::vector<nixl_query_resp_t> found;
	nixl_reg_dlist_t asked(OBJ_SEG);
	for (size_t i = 0; i < VALUES; i++)
		asked.add(agent::named("host/" + std::to_string(i)));
	for (char &c : a->memory)
		c = (char)rand();
	wanted = a->memory;
	MUST(a->run(NIXL_READ, VALUES) == NIXL_ERR_NOT_FOUND);
	MUST(a->run(NIXL_WRITE, VALUES / 2) == NIXL_SUCCESS);
	MUST(a->engine->queryMem(asked, found) == NIXL_SUCCESS && found.size() == VALUES);
	for (size_t i = 0; i < VALUES; i++)
		MUST(found[i].has_value() == (i < VALUES / 2));
	memset(a->memory.data(), 0, a->memory.size());
	MUST(a->run(NIXL_READ, VALUES) == NIXL_ERR_NOT_FOUND);
	MUST(memcmp(a->memory.data(), wanted.data(), wanted.size() / 2) == 0);
	a->memory = wanted;
	MUST(a->run(NIXL_WRITE, VALUES) == NIXL_SUCCESS);
}

void releases(agent *a)
{
	for (unsigned i = 0; i < 20; i++) {
		nixlBackendReqH *handle = a->post(NIXL_READ, VALUES);
		usleep((unsigned)rand() % 2000);
		MUST(a->engine->releaseReqH(handle) == NIXL_SUCCESS);
		memset(a->memory.data(), 0x5A, a->memory.size());
		usleep(20000);
		MUST(a->filled(0x5A));
	}
}

/* A child of fork() gets an error, not the transfer of its parent. */
void forks(agent *a)
{
	nixlBackendReqH *handle = a->post(NIXL_READ, VALUES);
	nixl_status_t status = NIXL_IN_PROG;
	int end = -1;
	pid_t child = fork();
	if (child == 0) {
		MUST(a->engine->checkXfer(handle) == NIXL_ERR_BACKEND);
		MUST(a->engine->releaseReqH(handle) == NIXL_SUCCESS);
		_exit(0);
	}
	MUST(child > 0 && waitpid(child, &end, 0) == child && end == 0);
	while (status == NIXL_IN_PROG)
		status = a->engine->checkXfer(handle);
	MUST(status == NIXL_SUCCESS && a->engine->releaseReqH(handle) == NIXL_SUCCESS);
}

/* Threads take each other's completions. */
void threads(agent *a)
{
	std::vector<std::thread> all;
	for (unsigned t = 0; t < 4; t++) {
		all.emplace_back([a] {
			for (unsigned i = 0; i < 100; i++)
				MUST(a->run(NIXL_WRITE, 1 + i % 4) == NIXL_SUCCESS);
		});
	}
	for (std::thread &t : all)
		t.join();
}

} // namespace

int main(int argc, char **argv)
{
	if (argc != 4)
		return 2;
	void *so = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
	if (!so)
		fprintf(stderr, "%s\n", dlerror());
	MUST(so);
	auto init = (nixlBackendPlugin * (*)()) dlsym(so, "nixl_plugin_init");
	auto statuses = (unsigned (*)(int *, unsigned))dlsym(so, "kvrail_nixl_statuses");
	MUST(init && statuses && dlsym(so, "nixl_plugin_fini"));
	agent a = {};
	int one[VALUES];
	a.plugin = init();
	MUST(a.plugin->api_version == atoi(argv[2]));
	MUST(strcmp(a.plugin->get_plugin_name(), "KVRAIL") == 0 && a.plugin->get_plugin_version()[0]);
	MUST(a.plugin->get_backend_options().count("servers") == 1);
	MUST(a.plugin->get_backend_mems() == (nixl_mem_list_t{DRAM_SEG, OBJ_SEG}));
	MUST(!a.create({}) && !a.create({{"servers", argv[3]}, {"colour", "red"}}));
	a.open(argv[3]);
	transfers(&a);
	MUST(a.run(NIXL_READ, 3) == NIXL_SUCCESS && statuses(one, VALUES) == 3 && one[2] == NIXL_SUCCESS);
	MUST(a.engine->registerMem(agent::named("x"), VRAM_SEG, a.dram) == NIXL_ERR_NOT_SUPPORTED);
	threads(&a);
	releases(&a);
	forks(&a);
	a.close();
	return 0;
}
