package flink

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"latentbeam/stages/exec/exectest"
)

// The environment of the tests, set by .ci/flink.
const (
	sizeVariable = "LATENTBEAM_FLINK"     // short or full
	dirVariable  = "LATENTBEAM_FLINK_DIR" // jars and the program
)

// startTime is the time limit for starting a cluster on a busy machine.
const startTime = 4 * time.Minute

// opens are the packages of Java that Flink accesses by reflection.
var opens = []string{"java.lang", "java.nio", "java.util", "java.util.concurrent", "java.time", "java.net", "sun.nio.ch"}

// flink is a running cluster.
type flink struct {
	dir     string // directory of the cluster: configuration, logs, temporary files
	jars    string // class path of Java
	program string // path of the program
	address string // address of the JobManager
	rpc     int    // port of the JobManager
	restAt  int    // port of its REST service
	jobs    int    // port of the job server
	apart   *hosts // separate hosts for the TaskManagers; nil: they run on this host

	mu    sync.Mutex
	parts map[string]*exec.Cmd // processes: jobmanager, tm1, tm2, jobserver
}

// started is the cluster that all tests share.
var started = sync.OnceValues(startCluster)

// cluster returns the cluster. It skips the test if there is none.
func cluster(t *testing.T) *flink {
	t.Helper()
	if os.Getenv(sizeVariable) == "" {
		t.Skip("NOT TESTED: needs a cluster of Flink: make flink")
	}
	f, err := started()
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// full returns the cluster. It skips the test in CI, for which the test takes too long.
func full(t *testing.T) *flink {
	t.Helper()
	if os.Getenv(sizeVariable) == "short" {
		t.Skip("only in make flink")
	}
	return cluster(t)
}

func TestMain(m *testing.M) {
	exectest.Main()
	code := m.Run()
	if os.Getenv(sizeVariable) != "" {
		if f, err := started(); err == nil {
			f.stop()
		}
	}
	os.Exit(code)
}

// startCluster starts a cluster on this host with the jars of .ci/flink.
func startCluster() (*flink, error) {
	jars := os.Getenv(dirVariable)
	dir, err := os.MkdirTemp("", "latentbeam-flink")
	if err != nil {
		return nil, err
	}
	f := &flink{dir: dir, jars: filepath.Join(jars, "lib", "*"), program: filepath.Join(jars, "program"), parts: map[string]*exec.Cmd{},
		address: "localhost", rpc: 6123, restAt: 8081, jobs: 8099}
	return f, f.begin()
}

// begin starts all parts of the cluster.
func (f *flink) begin() error {
	if err := f.configure(); err != nil {
		return err
	}
	for name, args := range map[string][]string{"jobmanager": f.jobManager(), "tm1": f.taskManager("tm1"), "tm2": f.taskManager("tm2"),
		"jobserver": f.jobServer()} {
		if err := f.start(name, args); err != nil {
			f.stop()
			return err
		}
	}
	err := f.ready(2)
	if err != nil {
		f.stop()
	}
	return err
}

// configure writes Flink's configuration. A failed region of a job is restarted up to 1,000 times. The delay of a restart is longer than Beam
// keeps a dead worker in its cache of environments.
func (f *flink) configure() error {
	conf := filepath.Join(f.dir, "conf")
	if err := os.MkdirAll(conf, 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(conf, "flink-conf.yaml"), fmt.Appendf(nil, `jobmanager.rpc.address: %[1]s
jobmanager.rpc.port: %[2]d
jobmanager.bind-host: %[1]s
rest.address: %[1]s
rest.bind-address: %[1]s
rest.port: %[3]d
heartbeat.interval: 1000
heartbeat.timeout: 8000
parallelism.default: 2
restart-strategy.type: fixed-delay
restart-strategy.fixed-delay.attempts: 1000
restart-strategy.fixed-delay.delay: 3 s
classloader.resolve-order: parent-first
jobmanager.execution.failover-strategy: region
`, f.address, f.rpc, f.restAt), 0o644)
}

// java returns a command line of Java.
func (f *flink) java(heap, main string, args ...string) []string {
	line := []string{"java", "-Xms64m", "-Xmx" + heap, "-XX:+UseSerialGC", "-XX:+ExitOnOutOfMemoryError", "-XX:MaxDirectMemorySize=256m",
		"-Dorg.slf4j.simpleLogger.showDateTime=true", "-Dlog.file=/dev/null"}
	for _, p := range opens {
		line = append(line, "--add-opens=java.base/"+p+"=ALL-UNNAMED")
	}
	return append(append(line, "-cp", f.jars, main), args...)
}

// jobManager returns the command of the JobManager.
func (f *flink) jobManager() []string {
	return f.java("512m", "org.apache.flink.runtime.entrypoint.StandaloneSessionClusterEntrypoint",
		"--configDir", filepath.Join(f.dir, "conf"), "-Dio.tmp.dirs="+f.dir)
}

// taskManager returns the command of a TaskManager with one slot. All sizes of memory must be given, because the scripts of Flink, which
// compute them, are not used.
func (f *flink) taskManager(name string) []string {
	args := []string{"--configDir", filepath.Join(f.dir, "conf"), "-Dtaskmanager.cpu.cores=1", "-Dtaskmanager.numberOfTaskSlots=1",
		"-Dtaskmanager.resource-id=" + name, "-Dio.tmp.dirs=" + f.dir, "-Dtaskmanager.host=" + f.hostOf(name),
		"-Dtaskmanager.bind-host=" + f.hostOf(name)}
	for key, size := range map[string]string{"task.heap.size": "256m", "task.off-heap.size": "64m", "network.min": "64m",
		"network.max": "64m", "managed.size": "64m", "framework.heap.size": "128m", "framework.off-heap.size": "64m",
		"jvm-metaspace.size": "256m", "jvm-overhead.min": "64m", "jvm-overhead.max": "64m"} {
		args = append(args, "-Dtaskmanager.memory."+key+"="+size)
	}
	return f.java("400m", "org.apache.flink.runtime.taskexecutor.TaskManagerRunner", args...)
}

// jobServer returns the command of Beam's job server.
func (f *flink) jobServer() []string {
	return f.java("1g", "org.apache.beam.runners.flink.FlinkJobServerDriver", fmt.Sprintf("--flink-master=%s:%d", f.address, f.restAt),
		"--job-host=localhost", fmt.Sprintf("--job-port=%d", f.jobs), "--artifact-port=0", "--expansion-port=0",
		"--artifacts-dir="+filepath.Join(f.dir, "artifacts"))
}

// hostOf returns the address of a TaskManager.
func (f *flink) hostOf(name string) string {
	if f.apart == nil {
		return "localhost"
	}
	return f.apart.addressOf(name)
}

// start starts a part of the cluster. A TaskManager passes its environment on to its workers.
func (f *flink) start(name string, args []string) error {
	log, err := os.Create(filepath.Join(f.dir, name+".log"))
	if err != nil {
		return err
	}
	defer log.Close()
	alone := f.apart != nil && strings.HasPrefix(name, "tm")
	if alone {
		args = f.apart.alone(name, args)
	}
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Stdout, cmd.Stderr, cmd.Dir = log, log, f.dir
	cmd.Env = append(os.Environ(), "LATENTBEAM_PROBE_HOST="+name)
	if name == "tm2" { // the stage probe is three times slower there
		cmd.Env = append(cmd.Env, "LATENTBEAM_PROBE_SLOW=3")
	}
	if alone {
		cmd.Env = append(cmd.Env, f.apart.env...)
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.parts[name] = cmd
	if alone {
		if err := f.apart.connect(name, cmd.Process.Pid); err != nil {
			return err
		}
	}
	go cmd.Wait()
	return nil
}

// ready waits until the job server listens and the given number of TaskManagers is registered.
func (f *flink) ready(managers int) error {
	for deadline := time.Now().Add(startTime); time.Now().Before(deadline); time.Sleep(200 * time.Millisecond) {
		conn, err := net.Dial("tcp", fmt.Sprintf("localhost:%d", f.jobs))
		if err != nil {
			continue
		}
		conn.Close()
		var overview struct {
			TaskManagers int `json:"taskmanagers"`
		}
		if f.rest("/overview", &overview) == nil && overview.TaskManagers == managers {
			return nil
		}
	}
	logs := ""
	for name := range f.parts {
		text, _ := os.ReadFile(filepath.Join(f.dir, name+".log"))
		logs += fmt.Sprintf("\n%s: %s", name, text[max(0, len(text)-1000):])
	}
	return fmt.Errorf("the cluster was not ready in %v%s", startTime, logs)
}

// rest sends a request to the REST service of the JobManager.
func (f *flink) rest(path string, into any) error {
	r, err := http.Get(fmt.Sprintf("http://%s:%d%s", f.address, f.restAt, path))
	if err != nil {
		return err
	}
	defer r.Body.Close()
	return json.NewDecoder(r.Body).Decode(into)
}

// idle waits until the cluster works on no job. A canceled job ends only when its workers have noticed.
func (f *flink) idle(t *testing.T) {
	t.Helper()
	soon(t, "the cluster has ended all jobs", func() bool {
		var all struct{ Jobs []struct{ State string } }
		if f.rest("/jobs/overview", &all) != nil {
			return false
		}
		for _, j := range all.Jobs {
			switch j.State {
			case "FINISHED", "CANCELED", "FAILED":
			default:
				return false
			}
		}
		return true
	})
}

// stop ends the cluster.
func (f *flink) stop() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, cmd := range f.parts {
		_ = cmd.Process.Kill()
	}
	os.RemoveAll(f.dir)
}

// kill kills a part of the cluster.
func (f *flink) kill(t *testing.T, name string) {
	t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.parts[name].Process.Kill(); err != nil {
		t.Fatal(err)
	}
}

// workers returns the worker processes of all TaskManagers, or of the named one.
func (f *flink) workers(t *testing.T, manager string) (pids []int) {
	t.Helper()
	entries, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		line, _ := os.ReadFile(filepath.Join("/proc", e.Name(), "cmdline"))
		environment, _ := os.ReadFile(filepath.Join("/proc", e.Name(), "environ"))
		if strings.HasPrefix(string(line), f.program+"\x00--id=") &&
			strings.Contains(string(environment), "LATENTBEAM_PROBE_HOST="+manager) {
			pids = append(pids, pid)
		}
	}
	return pids
}
