#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""check-deploy.py -- whether the manifests of deploy/kubernetes agree with each other and with kv-server. Speaks TAP.

The base is read as it is; variants are rendered by `kubectl kustomize` where kubectl is installed. The real kv-server
(KVRAIL_BUILD, build/release) says which options there are, and starts with the ConfigMap's file. Then one thing after
the other is broken on purpose: the check must name each. Needs Debian's python3-yaml.
"""
import copy
import glob
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile

try:
    import yaml
except ImportError:
    print("1..1\nok 1 - manifests # SKIP python3-yaml is not installed")
    sys.exit(0)

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
DEPLOY = os.path.join(ROOT, "deploy/kubernetes")
SERVER = os.path.join(ROOT, os.environ.get("KVRAIL_BUILD", "build/release"), "kv-server")
COMPONENTS = sorted(os.listdir(os.path.join(DEPLOY, "components")))
PROBES = {"startupProbe": "/readyz", "readinessProbe": "/readyz", "livenessProbe": "/healthz"}
UNITS = {"Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30}
PREFAULT = 100 << 20  # bytes of pages that a small virtual machine, whose memory is cold, makes and registers in a second
VALUE = 640  # bytes of key and index of a value
NOTE = 270  # of --recover verify: records_places * sizeof(struct record) of store/records.h
KEPT = 110  # in the index of --keep, with a key of 32 bytes
ROOM = 1 << 30  # for connections and messages
failed = count = 0


def tap(name, problems):
    global failed, count
    count += 1
    failed += bool(problems)
    print(f"{'not ok' if problems else 'ok'} {count} - {name}")
    for p in problems:
        print(f"# {p}")


def base():
    with open(os.path.join(DEPLOY, "base/kustomization.yaml"), encoding="utf-8") as f:
        names = yaml.safe_load(f)["resources"]
    objects = []
    for name in names:
        with open(os.path.join(DEPLOY, "base", name), encoding="utf-8") as f:
            objects += [o for o in yaml.safe_load_all(f) if o]
    return objects


def rendered(directory):
    out = subprocess.run(["kubectl", "kustomize", directory], capture_output=True, text=True)
    if out.returncode:
        raise ValueError(out.stderr.strip())
    return [o for o in yaml.safe_load_all(out.stdout) if o]


def with_components(names, over="base"):
    with tempfile.TemporaryDirectory(dir=DEPLOY, prefix=".check.") as d:
        with open(os.path.join(d, "kustomization.yaml"), "w", encoding="utf-8") as f:
            yaml.safe_dump({"apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization",
                            "resources": [f"../{over}"], "components": [f"../components/{n}" for n in names]}, f)
        return rendered(d)


def options_known():
    text = subprocess.run([SERVER, "--help"], capture_output=True, text=True, check=True).stdout
    return set(re.findall(r"--([a-z][a-z0-9-]+)", text))


def size(text):
    m = re.fullmatch(r"(\d+)(Ki|Mi|Gi)?", str(text))
    return int(m.group(1)) * UNITS.get(m.group(2), 1) if m else 0


def cores(text):
    m = re.fullmatch(r"(\d+(?:\.\d+)?)(m?)", str(text))
    return float(m.group(1)) / (1000 if m.group(2) else 1) if m else 0


def config_options(text):
    lines = [line.strip() for line in text.splitlines()]
    return dict([part.strip() for part in (line + "=").split("=")][:2] for line in lines if line and line[0] != "#")


def one(objects, *kinds):
    found = [o for o in objects if o["kind"] in kinds]
    return found[0] if len(found) == 1 else None


class Check:
    """All complaints about one set of objects."""

    def __init__(self, objects, known):
        self.objects, self.known, self.problems = objects, known, []
        try:
            self.all()
        except (KeyError, IndexError, TypeError, ValueError, StopIteration, AttributeError) as e:
            self.problems.append(f"something is missing, or no number: {type(e).__name__} {e}")

    def must(self, holds, text):
        if not holds:
            self.problems.append(text)

    def all(self):
        self.set = one(self.objects, "StatefulSet", "DaemonSet")
        self.must(self.set, "there is not one StatefulSet or DaemonSet")
        self.spec = self.set["spec"]["template"]["spec"]
        self.box = self.spec["containers"][0]
        self.ports = {p["name"]: p["containerPort"] for p in self.box["ports"]}
        self.config = config_options(one(self.objects, "ConfigMap")["data"]["config"])
        self.args = dict((a.lstrip("-") + "=").split("=", 2)[:2] for a in self.box["args"])
        self.options()
        self.selectors()
        self.addresses()
        self.life()
        self.places()
        self.memory()
        self.confinement()
        self.local()
        self.key()
        self.rights()

    def options(self):
        for name in list(self.config) + list(self.args):
            self.must(name in self.known, f"kv-server has no option {name}")

    def selectors(self):
        labels = self.set["spec"]["template"]["metadata"]["labels"]
        service, pdb, policy = one(self.objects, "Service"), one(self.objects, "PodDisruptionBudget"), one(self.objects, "NetworkPolicy")
        for who, of in (("Service", service["spec"]["selector"]), ("StatefulSet", self.set["spec"]["selector"]["matchLabels"]),
                        ("PodDisruptionBudget", pdb["spec"]["selector"]["matchLabels"]),
                        ("NetworkPolicy", policy["spec"]["podSelector"]["matchLabels"])):
            self.must(of.items() <= labels.items(), f"{who} selects other pods than the servers")
        self.must(service["spec"].get("clusterIP") == "None", "Service is not headless: clients need every pod")
        self.must(pdb["spec"].get("maxUnavailable") == 1, "PodDisruptionBudget lets more than one server go at once")
        self.must(self.set["spec"].get("replicas", 2) > 1, "one server has nobody to stand in for it")
        monitor = one(self.objects, "ServiceMonitor")
        if monitor:
            self.must(monitor["spec"]["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items(),
                      "ServiceMonitor selects another Service")
            self.must(monitor["spec"]["endpoints"][0]["port"] in [p["name"] for p in service["spec"]["ports"]],
                      "ServiceMonitor names no port of Service")
            self.must(monitor["spec"]["endpoints"][0]["path"] == "/metrics", "ServiceMonitor does not ask for /metrics")
        for port in service["spec"]["ports"]:
            self.must(self.ports.get(port["targetPort"]) == port["port"], f"Service port {port['name']} leads nowhere")
        for rule in policy["spec"]["ingress"]:
            for port in rule.get("ports", []):
                self.must(port["port"] in self.ports, f"NetworkPolicy names a port {port['port']} that no container has")

    def addresses(self):
        service, set_name = one(self.objects, "Service")["metadata"]["name"], self.set["spec"].get("serviceName")
        self.must(self.args["listen-addr"] == f"$(POD_IP):{self.ports['control']}", "--listen-addr is not the control port")
        self.must(self.args["http-addr"] == f"$(POD_IP):{self.ports['http']}", "--http-addr is not the http port")
        self.must(self.args["members"] == f"k8s:$(NAMESPACE)/{service}:{self.ports['control']}", "--members names another Service")
        self.must(self.args["node-id"] == "$(POD_NAME)", "--node-id is not the pod's name, as which members know it")
        self.must(set_name in (None, service), "StatefulSet's serviceName is not the Service")
        env = {e["name"] for e in self.box["env"]}
        for name in re.findall(r"\$\((\w+)\)", " ".join(self.box["args"])):
            self.must(name in env, f"an argument uses $({name}), which env does not set")

    def life(self):
        drain = int(self.config.get("drain-sec", 10))
        self.must(self.spec.get("terminationGracePeriodSeconds", 30) >= drain + 10,
                  "terminationGracePeriodSeconds leaves less than 10 s beyond drain-sec")
        for name, path in PROBES.items():
            get = self.box.get(name, {}).get("httpGet", {})
            self.must(get.get("path") == path and get.get("port") == "http", f"{name} does not ask http for {path}")
        # A server that is killed while it makes its pages begins anew, for ever.
        start = 60 + (int(self.config["memory-mb"]) << 20) / PREFAULT
        self.must(self.patience("startupProbe") >= start, f"startupProbe gives up before {start:.0f} s, in which memory is made")
        self.must(self.patience("livenessProbe") >= 20, "livenessProbe kills a server within 20 s")
        hook = self.box.get("lifecycle", {}).get("preStop", {}).get("exec", {}).get("command", [])
        if hook:
            self.must("drain" in " ".join(hook) and ("allow-drain" in self.config or "--allow-drain" in self.box["args"]), "preStop drains, and the server does not allow that (allow-drain)")

    def patience(self, probe):
        p = self.box.get(probe, {})
        return p.get("periodSeconds", 10) * p.get("failureThreshold", 3)

    def places(self):
        if self.set["kind"] == "DaemonSet":
            return
        rules = self.spec.get("affinity", {}).get("podAntiAffinity", {}).get("requiredDuringSchedulingIgnoredDuringExecution", [])
        labels = self.set["spec"]["template"]["metadata"]["labels"]
        self.must(any(r["topologyKey"] == "kubernetes.io/hostname" and r["labelSelector"]["matchLabels"].items() <= labels.items()
                      for r in rules), "two servers may be on one node, and go with it")
        self.must(self.set["spec"].get("podManagementPolicy") == "Parallel", "servers wait for each other (podManagementPolicy)")
        self.must(self.set["spec"].get("updateStrategy", {}).get("type") == "RollingUpdate", "an upgrade is not rolling (updateStrategy)")

    def memory(self):
        r = self.box["resources"]
        self.must(r["requests"] == r["limits"], "requests and limits differ")
        self.must(cores(r["requests"]["cpu"]) >= int(self.config["worker-threads"]), "fewer cores than worker-threads")
        need = (int(self.config["memory-mb"]) + int(self.config.get("landing-mb", 128))) << 20
        values = int(self.config.get("max-values", int(self.config["memory-mb"]) << 10))
        index = values * VALUE + self.kept(values)
        huge, small = size(r["limits"].get("hugepages-2Mi", 0)), size(r["limits"]["memory"])
        self.must(small + huge >= need + index + ROOM and small >= index + ROOM,
                  "the memory limit is below memory-mb, landing-mb, what max-values take, and 1 GiB")
        self.must(not huge or huge >= need, "hugepages-2Mi does not cover memory-mb and landing-mb")

    def kept(self, values):
        """Bytes of small pages that --keep takes."""
        if "keep" not in self.args:
            return 0
        files = [self.volume(os.path.dirname(self.args[name]))["emptyDir"] for name in ("keep", "arena-file")]
        notes = values * (KEPT + (NOTE if "recover" in self.args else 0))
        arena = int(self.config["memory-mb"]) << 20
        self.must(all(v.get("medium") == "Memory" for v in files), "--keep or --arena-file lies on a disk, or ends with the container")
        self.must(size(files[0]["sizeLimit"]) >= arena + notes, "sizeLimit is below memory-mb, its notes and the index")
        return notes + (arena if self.box["resources"]["limits"].get("hugepages-2Mi") else 0)  # the arena is none of those

    def volume(self, path):
        volumes = {v["name"]: v for v in self.spec["volumes"]}
        return {m["mountPath"]: volumes[m["name"]] for m in self.box["volumeMounts"]}.get(path, {})

    def confinement(self):
        of_pod = self.spec["securityContext"]
        self.must(of_pod.get("runAsNonRoot") and of_pod.get("runAsUser", 0) > 0, "the pod may run as root")
        profile = of_pod["seccompProfile"]
        self.must(profile["type"] in ("RuntimeDefault", "Localhost"), "no seccomp profile")
        if profile["type"] == "Localhost":
            self.must(os.path.exists(os.path.join(DEPLOY, "components/seccomp", profile["localhostProfile"])),
                      "there is no such seccomp profile")
        paths = [m["mountPath"] for m in self.box["volumeMounts"]]
        self.must(len(set(paths)) == len(paths), "two volumes at one path")
        for box in self.spec["containers"] + self.spec["initContainers"]:
            c = box.get("securityContext", {})
            self.must(c.get("capabilities", {}).get("add", []) in ([], ["CHOWN"]) and (box is not self.box or "add" not in c["capabilities"]),
                      f"{box['name']} has capabilities")
            self.must(c.get("allowPrivilegeEscalation") is False and c.get("readOnlyRootFilesystem") is True
                      and c.get("capabilities", {}).get("drop") == ["ALL"], f"{box['name']} is not confined")

    def local(self):
        """The socket for clients of the node: its folder is the node's, and belongs to the server's user."""
        if "local-socket" not in self.args:
            return
        path = os.path.dirname(self.args["local-socket"])
        self.must("hostPath" in self.volume(path), "--local-socket lies in no folder of the node: engines do not see it")
        user, group = (self.spec["securityContext"][name] for name in ("runAsUser", "runAsGroup"))
        owners = [b for b in self.spec["initContainers"] if b["command"] == ["chown", f"{user}:{group}", path]]
        self.must(owners and any(m["mountPath"] == path for m in owners[0]["volumeMounts"]),
                  "the folder of --local-socket belongs to root: the server cannot make its socket")

    def key(self):
        first = self.spec["initContainers"][0]["command"]
        of_key = self.volume(os.path.dirname(self.config["psk-file"]))
        self.must("emptyDir" in of_key, "psk-file lies in no volume of the pod's own")
        self.must(of_key["emptyDir"].get("medium") == "Memory", "the key is written to a disk")
        self.must(first[0] == "install" and "0600" in first and first[-1] == self.config["psk-file"],
                  "the key is not copied for its reader alone")
        self.must("configMap" in self.volume(os.path.dirname(self.args["config"])), "--config lies in no ConfigMap")

    def rights(self):
        role, binding = one(self.objects, "Role"), one(self.objects, "RoleBinding")
        rule = role["rules"]
        self.must(len(rule) == 1 and rule[0]["resources"] == ["endpointslices"] and sorted(rule[0]["verbs"]) == ["get", "list", "watch"],
                  "Role allows something else than to read EndpointSlices")
        self.must(binding["roleRef"]["name"] == role["metadata"]["name"]
                  and binding["subjects"][0]["name"] == self.spec["serviceAccountName"], "RoleBinding binds something else")


def starts(objects):
    """The real server takes the ConfigMap's file; what this machine may lack, memory and the key, is overridden."""
    with tempfile.TemporaryDirectory() as d:
        config, key = os.path.join(d, "config"), os.path.join(d, "key")
        with open(config, "w", encoding="utf-8") as f:
            f.write(one(objects, "ConfigMap")["data"]["config"])
        subprocess.run([SERVER, "--make-psk", key], check=True, stdout=subprocess.DEVNULL)
        server = subprocess.Popen([SERVER, "--config", config, "--psk-file", key, "--memory-mb", "64", "--landing-mb", "16",
                                   "--worker-threads", "1", "--listen-addr", "127.0.0.1:0", "--provider", "tcp", "--http-addr", "127.0.0.1:0"],
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        said = []
        for line in server.stdout:
            said.append(line.rstrip())
            if "ready on" in line:
                server.send_signal(signal.SIGTERM)
                server.communicate(timeout=60)
                return [] if server.returncode == 0 else [f"it ended with {server.returncode}"]
        server.wait()
        return said or ["it said nothing"]


def breakages():
    """(what is broken, where it is found, how)"""
    def box(o):
        return one(o, "StatefulSet")["spec"]["template"]["spec"]["containers"][0]

    def pod(o):
        return one(o, "StatefulSet")["spec"]["template"]["spec"]

    def config(o, a, b):
        data = one(o, "ConfigMap")["data"]
        assert a in data["config"]
        data["config"] = data["config"].replace(a, b)

    def keep(o, volume):
        pod(o)["volumes"].append({"name": "arena", "emptyDir": volume})
        box(o)["volumeMounts"].append({"name": "arena", "mountPath": "/arena"})
        box(o)["args"] += ["--keep=/arena/index", "--arena-file=/arena/arena", "--recover=verify"]

    def local(o, path):
        pod(o)["volumes"].append({"name": "local", "hostPath": {"path": path}})
        box(o)["volumeMounts"].append({"name": "local", "mountPath": path})
        box(o)["args"].append(f"--local-socket={path}/socket")

    yield "an option that does not exist", "no option", lambda o: config(o, "landing-mb", "landing-pad")
    yield "an argument that does not exist", "no option", lambda o: box(o)["args"].append("--no-such-thing=1")
    yield "a drain longer than the grace", "terminationGrace", lambda o: config(o, "drain-sec = 60", "drain-sec = 85")
    yield "memory that does not fit", "memory limit", lambda o: config(o, "8192", "16384")
    yield "an index that does not fit", "memory limit", lambda o: config(o, "max-values = 2000000", "")
    yield "a selector of other pods", "Service selects", lambda o: one(o, "Service")["spec"].update(selector={"app": "x"})
    yield "a port that leads nowhere", "leads nowhere", lambda o: one(o, "Service")["spec"]["ports"][0].update(port=7412)
    yield "a probe of another path", "livenessProbe", lambda o: box(o)["livenessProbe"]["httpGet"].update(path="/health")
    yield "no readiness probe", "readinessProbe", lambda o: box(o).pop("readinessProbe")
    yield "a Role that may write", "Role allows", lambda o: one(o, "Role")["rules"][0]["verbs"].append("delete")
    yield "root", "as root", lambda o: pod(o)["securityContext"].pop("runAsNonRoot")
    yield "a writable root", "not confined", lambda o: box(o)["securityContext"].update(readOnlyRootFilesystem=False)
    yield "a key that all may read", "reader alone", lambda o: pod(o)["initContainers"][0].update(command=["cp", "/secret/key", "/run/kvrail/key"])
    yield "limits above requests", "differ", lambda o: box(o)["resources"]["limits"].update(memory="20Gi")
    yield "two servers that go at once", "more than one", lambda o: one(o, "PodDisruptionBudget")["spec"].update(maxUnavailable=2)
    yield "another Service's members", "another Service", lambda o: box(o)["args"].__setitem__(4, "--members=k8s:$(NAMESPACE)/other:7411")
    yield "a variable that is not set", "does not set", lambda o: box(o)["env"].pop()
    yield "a start without patience", "startupProbe gives up", lambda o: box(o)["startupProbe"].update(failureThreshold=13)
    yield "a pause that is death", "livenessProbe kills", lambda o: box(o)["livenessProbe"].update(failureThreshold=1)
    yield "a preStop hook that may not drain", "allow-drain", lambda o: box(o).update(
        lifecycle={"preStop": {"exec": {"command": ["kv-client", "drain", "$(POD_NAME)"]}}})
    yield "two servers on one node", "on one node", lambda o: pod(o).pop("affinity")
    yield "servers that wait for each other", "wait for each other", lambda o: one(o, "StatefulSet")["spec"].pop("podManagementPolicy")
    yield "an upgrade by hand", "not rolling", lambda o: one(o, "StatefulSet")["spec"].update(updateStrategy={"type": "OnDelete"})
    yield "more threads than cores", "fewer cores", lambda o: config(o, "worker-threads = 4", "worker-threads = 8")
    yield "less than a core", "fewer cores", lambda o: [of.update(cpu="500m") for of in box(o)["resources"].values()]
    yield "memory that is no number", "no number", lambda o: config(o, "memory-mb = 8192", "memory-mb = 64GB")
    yield "kept memory on a disk", "on a disk", lambda o: keep(o, {"sizeLimit": "9Gi"})
    yield "kept memory with too little room", "sizeLimit is below", lambda o: keep(o, {"medium": "Memory", "sizeLimit": "8Gi"})
    yield "notes that do not fit", "memory limit", lambda o: keep(o, {"medium": "Memory", "sizeLimit": "9Gi"})
    yield "a socket that engines do not see", "do not see it", lambda o: box(o)["args"].append("--local-socket=/tmp/socket")
    yield "a socket's folder that is root's", "belongs to root", lambda o: local(o, "/run/kvrail-local")
    yield "two volumes at one path", "at one path", lambda o: local(o, "/run/kvrail")
    yield "a server with capabilities", "has capabilities", lambda o: box(o)["securityContext"].update(
        capabilities={"drop": ["ALL"], "add": ["CHOWN"]})
    yield "a name that moves", "node-id", lambda o: box(o)["args"].__setitem__(1, "--node-id=$(POD_IP)")
    yield "a key on a disk", "to a disk", lambda o: next(v for v in pod(o)["volumes"] if v["name"] == "run")["emptyDir"].pop("medium")
    yield "no seccomp profile", "no seccomp", lambda o: pod(o)["securityContext"]["seccompProfile"].update(type="Unconfined")
    yield "one server", "stand in", lambda o: one(o, "StatefulSet")["spec"].update(replicas=1)
    yield "rights of another account", "binds something else", lambda o: one(o, "RoleBinding")["subjects"][0].update(name="default")
    yield "a network policy for a port that is not there", "NetworkPolicy names", lambda o: one(o, "NetworkPolicy")[
        "spec"]["ingress"][1]["ports"][0].update(port="rdma")
    yield "a Service that balances", "headless", lambda o: one(o, "Service")["spec"].pop("clusterIP")


def main():
    known, plain = options_known(), base()
    tap("the base agrees with itself and with kv-server", Check(plain, known).problems)
    tap("kv-server starts with the ConfigMap's file", starts(plain))
    for what, said, how in breakages():
        broken = copy.deepcopy(plain)
        how(broken)
        found = Check(broken, known).problems
        tap(f"found: {what}", [] if any(said in f for f in found) else [f"not found; what was: {found}"])
    if shutil.which("kubectl"):
        for over, what in (("base", "the StatefulSet"), ("daemonset", "the DaemonSet")):
            bare = rendered(os.path.join(DEPLOY, over))
            tap(what, Check(bare, known).problems)
            for name in COMPONENTS:
                objects = with_components([name], over)
                # kustomize says nothing where a patch finds no target.
                nothing = ["it changes nothing"] if objects == bare else []
                tap(f"{what} with component {name}", Check(objects, known).problems + nothing)
            tap(f"{what} with all components", Check(with_components(COMPONENTS, over), known).problems)
    else:
        tap("variants # SKIP kubectl is not installed", [])
    for left in glob.glob(os.path.join(DEPLOY, ".check.*")):
        tap("nothing is left behind", [left])
    print(f"1..{count}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
