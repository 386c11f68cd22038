/* SPDX-License-Identifier: Apache-2.0 */
/* settings.cc -- one row for each parameter: name, default, reader. The names are those of kvrail's Python clients. */
#include "nixl/settings.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <stdexcept>

namespace kvrail
{
namespace
{

[[noreturn]] void refuse(const std::string &text)
{
	throw std::invalid_argument(text);
}

[[noreturn]] void refuse_value(const std::string &name, const std::string &value, const std::string &wanted)
{
	refuse("parameter " + name + " is '" + value + "', but must be " + wanted);
}

uint64_t number(const std::string &name, const std::string &value, uint64_t max)
{
	uint64_t n = 0;
	auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), n);
	if (error != std::errc() || end != value.data() + value.size() || n > max)
		refuse_value(name, value, "a whole number from 0 to " + std::to_string(max));
	return n;
}

bool yes_or_no(const std::string &name, const std::string &value)
{
	if (value == "1" || value == "true" || value == "yes" || value == "on")
		return true;
	if (value != "0" && value != "false" && value != "no" && value != "off")
		refuse_value(name, value, "1 or 0");
	return false;
}

uint64_t seconds(const std::string &name, const std::string &value)
{
	char *end = nullptr;
	double s = strtod(value.c_str(), &end);
	if (end != value.c_str() + value.size() || !(s > 0) || s > 1e9)
		refuse_value(name, value, "a number of seconds above 0, as 0.5");
	return std::max<uint64_t>((uint64_t)std::llround(s * 1e9), 1);
}

std::vector<std::string> split(const std::string &list)
{
	std::vector<std::string> parts;
	for (size_t at = 0; at <= list.size();) {
		size_t comma = std::min(list.find(',', at), list.size());
		size_t first = list.find_first_not_of(" \t", at), last = list.find_last_not_of(" \t", comma - 1);
		if (first < comma)
			parts.push_back(list.substr(first, last - first + 1));
		at = comma + 1;
	}
	return parts;
}

/* ---- the rows ---- */

struct row {
	const char *name, *initial;
	void (*read)(settings *s, const std::string &name, const std::string &value);
};

template <const char *kvc_options::*FIELD> void text(settings *s, const std::string &name, const std::string &)
{
	s->options.*FIELD = s->text[name].c_str();
}
template <unsigned kvc_options::*FIELD, unsigned MAX>
void count(settings *s, const std::string &name, const std::string &value)
{
	s->options.*FIELD = (unsigned)number(name, value, MAX);
}
template <unsigned FLAG, bool SET> void flag(settings *s, const std::string &name, const std::string &value)
{
	if (yes_or_no(name, value) == SET)
		s->options.flags |= FLAG;
}

void read_servers(settings *s, const std::string &, const std::string &value)
{
	s->servers = split(value);
}
void read_buffer(settings *s, const std::string &name, const std::string &value)
{
	s->options.buffer_bytes = number(name, value, UINT64_MAX);
}
void read_depth(settings *s, const std::string &name, const std::string &value)
{
	s->queue.depth = (uint32_t)number(name, value, 65536);
}
void read_timeout(settings *s, const std::string &name, const std::string &value)
{
	s->timeout_ns = s->options.timeout_ns = seconds(name, value);
}
void read_peer_timeout(settings *s, const std::string &name, const std::string &value)
{
	s->options.peer_timeout_ns = seconds(name, value);
}
void read_ttl(settings *s, const std::string &name, const std::string &value)
{
	s->ttl_s = (uint32_t)number(name, value, UINT32_MAX);
}
void read_log_level(settings *s, const std::string &name, const std::string &value)
{
	s->options.log_level = (int)number(name, value, 4);
}
void read_prefix(settings *s, const std::string &, const std::string &value)
{
	s->prefix = value;
}
void read_copies(settings *s, const std::string &name, const std::string &value)
{
	if (value == "2")
		s->options.flags |= KVC_TWO_COPIES;
	else if (value == "hot")
		s->options.flags |= KVC_HOT_COPIES;
	else if (value != "1")
		refuse_value(name, value, "1, 2 or hot");
}

const row rows[] = {
	{"servers", "", read_servers},
	{"psk_file", "", text<&kvc_options::psk_file>},
	{"psk", "", text<&kvc_options::psk>},
	{"cert_file", "", text<&kvc_options::cert_file>},
	{"key_file", "", text<&kvc_options::key_file>},
	{"ca_file", "", text<&kvc_options::ca_file>},
	{"crl_file", "", text<&kvc_options::crl_file>},
	{"seal_key_file", "", text<&kvc_options::seal_key_file>},
	{"seal_names", "0", flag<KVC_SEAL_NAMES, true>},
	{"server_name", "", text<&kvc_options::server_name>},
	{"cluster", "", text<&kvc_options::cluster>},
	{"provider", "auto", text<&kvc_options::provider>},
	{"nic", "", text<&kvc_options::nic>},
	{"num_rails", "0", count<&kvc_options::num_rails, 32>},
	{"num_clients", "0", count<&kvc_options::num_clients, 4096>},
	{"num_threads", "0", count<&kvc_options::num_threads, 256>},
	{"buffer_bytes", "0", read_buffer},
	{"depth", "1024", read_depth},
	{"timeout", "", read_timeout},
	{"peer_timeout", "2", read_peer_timeout},
	{"ttl", "0", read_ttl},
	{"prefix", "", read_prefix},
	{"copies", "1", read_copies},
	{"verify", "1", flag<KVC_NO_VERIFY, false>},
	{"down_is_miss", "0", flag<KVC_DOWN_IS_MISS, true>},
	{"wait", "0", flag<KVC_OPEN_WAIT, true>},
	{"log_level", "2", read_log_level},
};

const row *row_of(const std::string &name)
{
	for (const row &r : rows) {
		if (name == r.name)
			return &r;
	}
	return nullptr;
}

[[noreturn]] void refuse_unknown(const std::string &name)
{
	std::string names;
	for (const row &r : rows)
		names += names.empty() ? r.name : std::string(", ") + r.name;
	refuse("there is no parameter '" + name + "'; the parameters are " + names);
}

/* ---- the names of NIXL's plug-in for S3 ---- */

/* Take `name` out of the map. */
std::string taken(nixl_b_params_t *given, const char *name)
{
	auto at = given->find(name);
	std::string value = at == given->end() ? "" : at->second;
	if (at != given->end())
		given->erase(at);
	return value;
}

/* Engines that know only OBJ have no place for our names. */
void translate(nixl_b_params_t *given)
{
	std::string endpoint = taken(given, "endpoint_override"), bucket = taken(given, "bucket");
	std::string user = taken(given, "access_key"), secret = taken(given, "secret_key");
	std::string scheme = taken(given, "scheme");
	if (scheme != "" && scheme != "http")
		refuse_value("scheme", scheme,
			     "http or empty: servers with certificates need cert_file, key_file and ca_file instead");
	if (endpoint.compare(0, 7, "http://") == 0)
		endpoint.erase(0, 7);
	if (user.empty() != secret.empty())
		refuse("access_key and secret_key belong together: the identity and the key of the last line of a psk "
		       "file");
	if (!endpoint.empty())
		given->emplace("servers", endpoint);
	if (!bucket.empty())
		given->emplace("prefix", bucket + "/");
	if (!user.empty())
		given->emplace("psk", user + ":" + secret);
}

} // namespace

void settings_read(const std::string &type, const nixl_b_params_t &given, settings *out)
{
	nixl_b_params_t params = given;
	out->options.size = sizeof(out->options);
	out->queue.size = sizeof(out->queue);
	out->options.log_level = 2;
	if (type == "OBJ")
		translate(&params);
	for (const auto &[name, value] : params) {
		const row *r = row_of(name);
		if (!r)
			refuse_unknown(name);
		if (value.empty())
			continue;
		if (value.find('\0') != std::string::npos)
			refuse("parameter " + name + " has a zero byte");
		out->text[name] = value;
		r->read(out, name, value);
	}
	if (out->servers.empty())
		refuse("parameter servers is missing: it is 'HOST:PORT' of each kv-server, separated by commas, as "
		       "10.0.0.1:7411,10.0.0.2:7411");
	for (const std::string &server : out->servers)
		out->server_pointers.push_back(server.c_str());
	out->options.servers = out->server_pointers.data();
	out->options.num_servers = (unsigned)out->server_pointers.size();
}

nixl_b_params_t settings_defaults()
{
	nixl_b_params_t params;
	for (const row &r : rows)
		params.emplace(r.name, r.initial);
	return params;
}

std::string settings_pool(const settings &s)
{
	std::string all;
	for (const auto &[name, value] : s.text) {
		if (name != "prefix" && name != "ttl" && name != "depth")
			all += name + '=' + value + '\n';
	}
	return all;
}

} // namespace kvrail
