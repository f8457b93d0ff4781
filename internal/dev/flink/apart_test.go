package flink

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"latentbeam/internal/storage/store"
	"latentbeam/internal/storage/store/bucket/buckettest"
	"latentbeam/internal/storage/store/open"
	"latentbeam/internal/storage/store/storetest"
)

// hosts makes each TaskManager look like a separate host, by network and mount namespaces. At the path of the job's directory, it sees a
// directory of its own with a copy of the model, but no files of the submitter.
type hosts struct {
	dir string   // directory of the job
	own string   // parent of the directories that the TaskManagers see in place of dir
	env []string // environment of the hosts
}

// hub is the address by which the separate hosts reach this host.
const hub = "10.213.0.1"

// number returns the number of a TaskManager, such as 1 for tm1.
func number(name string) string { return strings.TrimPrefix(name, "tm") }

// addressOf returns the address of a TaskManager.
func (h *hosts) addressOf(name string) string { return "10.213." + number(name) + ".2" }

// alone returns a command line that runs args in new namespaces, once connect has connected the network.
func (h *hosts) alone(name string, args []string) []string {
	const script = `mount --bind "$1" "$2" && ip link set lo up && until ip route add default via "$3" 2>/dev/null; do sleep 0.05; done
shift 3; exec "$@"`
	return append([]string{"unshare", "-n", "-m", "sh", "-c", script, "sh", filepath.Join(h.own, name), h.dir,
		"10.213." + number(name) + ".1"}, args...)
}

// connect creates a network link between the process of a TaskManager and this host.
func (h *hosts) connect(name string, pid int) error {
	if err := entered(pid); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	n := number(name)
	for _, line := range []string{
		fmt.Sprintf("ip link add up%s type veth peer name eth0 netns %d", n, pid),
		fmt.Sprintf("ip addr add 10.213.%s.1/24 dev up%s", n, n),
		fmt.Sprintf("ip link set up%s up", n),
		fmt.Sprintf("nsenter -t %d -n ip addr add %s/24 dev eth0", pid, h.addressOf(name)),
		fmt.Sprintf("nsenter -t %d -n ip link set eth0 up", pid),
	} {
		args := strings.Fields(line)
		if text, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w: %s", line, err, text)
		}
	}
	return nil
}

// entered waits until a process is in its own network namespace. A link that is created earlier would stay in the namespace of this host.
func entered(pid int) error {
	here, err := os.Readlink("/proc/self/ns/net")
	if err != nil {
		return err
	}
	for deadline := time.Now().Add(startTime); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		if there, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/net", pid)); err != nil || there != here {
			return err
		}
	}
	return fmt.Errorf("process %d has no network namespace of its own", pid)
}

// startApart starts a cluster whose TaskManagers share only a network with each other and this host.
func startApart(t *testing.T, dir string, env []string) *flink {
	t.Helper()
	h := &hosts{dir: dir, own: t.TempDir(), env: env}
	for _, name := range []string{"tm1", "tm2"} {
		if err := os.CopyFS(filepath.Join(h.own, name, "model"), os.DirFS("../../../testdata/tiny")); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0o644); err != nil {
		t.Skipf("NOT TESTED: hosts of their own: %v", err)
	}
	jars := os.Getenv(dirVariable)
	f := &flink{dir: t.TempDir(), jars: filepath.Join(jars, "lib", "*"), program: filepath.Join(jars, "program"),
		parts:   map[string]*exec.Cmd{},
		address: hub, rpc: 6124, restAt: 8082, jobs: 8097, apart: h}
	if err := f.begin(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.stop)
	return f
}

// TestApart: hosts without a shared directory, each with a copy of the weights, write to a bucket in GCS and to one in S3. The output has the
// bytes of the local runner, and no host writes it into a directory.
func TestApart(t *testing.T) {
	if os.Getenv(sizeVariable) != "full" {
		t.Skip("NOT TESTED: needs a cluster of Flink: make flink")
	}
	buckettest.Host = hub
	if text, err := exec.Command("ip", "addr", "add", hub+"/32", "dev", "lo").CombinedOutput(); err != nil &&
		!bytes.Contains(text, []byte("File exists")) {
		t.Skipf("NOT TESTED: hosts of their own: %v: %s", err, text)
	}
	gcs, s3 := buckettest.GCS(t), buckettest.S3(t)
	gcs.Use(t)
	s3.Use(t)
	j := job{dir: t.TempDir()}
	j.f = startApart(t, j.dir, append(gcs.Env, s3.Env...))
	j.yaml = filepath.Join(j.dir, "job.yaml")
	write(t, j.yaml, "version: 1\nmodel: "+filepath.Join(j.dir, "model")+"\ninput: {prompts: \"gs://bucket/in/rows.csv\"}\n"+
		"defaults: {num_inference_steps: 4, seed: 1}\nstages: [encode_text, denoise, decode_vae, guard, encode_video]\n"+
		"resources: {batch_size: 2}\noutput: {path: out}\n")
	if err := os.CopyFS(filepath.Join(j.dir, "model"), os.DirFS("../../../testdata/tiny")); err != nil {
		t.Fatal(err)
	}
	rows := "id,prompt,seed\n"
	for i := range 12 {
		rows += fmt.Sprintf("r%d,a red circle moves left,%d\n", i, i)
	}
	in, err := open.Output(t.Context(), "gs://bucket/in")
	if err == nil {
		err = in.Put(t.Context(), store.Object{Name: "rows.csv", Data: []byte(rows)})
	}
	if err != nil {
		t.Fatal(err)
	}
	local := j.start(t, "local", "runner=local")
	local.ends(0)
	want := storetest.Outcome(t, open.Existing, local.out)
	for _, url := range []string{"gs://bucket/far", "s3://bucket/far"} {
		r := j.startAt(t, url, j.on(3)...)
		r.ends(0)
		got := storetest.Outcome(t, open.Existing, url)
		if len(want) == 0 || len(got) != len(want) {
			t.Errorf("%s has %d files, want %d", url, len(got), len(want))
		}
		for name, data := range want {
			if got[name] != data {
				t.Errorf("%s: %s differs", url, name)
			}
		}
		t.Logf("%s: %d files are the same", url, len(got))
	}
	for _, name := range []string{"tm1", "tm2"} { // workers see only their own files
		if _, err := fs.Stat(os.DirFS(filepath.Join(j.f.apart.own, name)), "out"); err == nil {
			t.Errorf("%s has written into a directory", name)
		}
	}
}
