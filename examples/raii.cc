// SPDX-License-Identifier: Apache-2.0
// raii.cc -- the library from C++17: objects close at the end of their scope, in the right order, and an error is an
// exception with the library's sentence. The header compiles as C++; there is no other binding.
//   raii HOST:PORT     (0: the value went there and back; 1: something failed; 2: wrong usage)
#include <cstdio>
#include <memory>
#include <stdexcept>
#include <string_view>
#include <vector>
#include <kvrail/kvclient.h>

struct Closer { void operator()(kvc_pool *pool) const { kvc_pool_close(&pool); } };
using Pool = std::unique_ptr<kvc_pool, Closer>;

Pool open(const char *server)
{
	kvc_options options{};
	kvc_pool *pool = nullptr;
	kv_error err{};
	options.size = sizeof(options);
	options.servers = &server, options.num_servers = 1;
	if (kvc_pool_open(&options, &pool, &err) < 0)
		throw std::runtime_error(err.text);
	return Pool(pool);
}

class Registered { // memory for GETs and PUTs without a copy; its lifetime ends before its pool's
public:
	Registered(kvc_pool *pool, std::size_t len) : pool_(pool), bytes_(len)
	{
		kv_error err{};
		if (kvc_register(pool_, bytes_.data(), bytes_.size(), &mem_, &err) < 0)
			throw std::runtime_error(err.text);
	}
	Registered(const Registered &) = delete;
	~Registered()
	{
		int rc = -KV_EBUSY;
		while (rc == -KV_EBUSY) rc = kvc_unregister(pool_, &mem_); // no call uses it for long
		if (rc < 0) new auto(std::move(bytes_)); // it must stay mapped until the pool is closed: never freed
	}
	std::vector<unsigned char> &bytes() { return bytes_; }
private:
	kvc_pool *pool_;
	std::vector<unsigned char> bytes_;
	kvc_mem *mem_ = nullptr;
};

int main(int argc, char **argv) try {
	if (argc < 2) return std::fprintf(stderr, "usage: raii HOST:PORT\n"), 2;
	const std::string_view name = "example/raii";
	const kvc_key key{name.data(), name.size()};
	Pool pool = open(argv[1]);
	Registered value(pool.get(), 100000);
	int rc = kvc_put(pool.get(), key, value.bytes().data(), value.bytes().size(), nullptr);
	int64_t len = rc < 0 && rc != -KV_EEXIST ? rc : kvc_get(pool.get(), key, value.bytes().data(), value.bytes().size(), nullptr);
	if (len < 0) throw std::runtime_error(kvc_strerror(static_cast<int>(len)));
	return std::printf("%lld bytes went there and back\n", static_cast<long long>(len)), 0;
} catch (const std::exception &e) { return std::fprintf(stderr, "%s\n", e.what()), 1; }
