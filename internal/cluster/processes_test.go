//go:build cuda && linux

package cluster

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"latentbeam/kernels"
)

// envOther is an environment variable. It makes a process of this test binary the second rank of TestTwoProcesses, and names the case.
const envOther = "LATENTBEAM_TEST_RANK"

// rounds exchanges several matrices, so that something can happen between two exchanges.
func rounds(ctx context.Context, tr kernels.Transport, be kernels.Backend, wait time.Duration) error {
	defer be.Scope()()
	g := kernels.NewGroup(ctx, tr, be, wait)
	for _, dt := range []kernels.DType{kernels.F32, kernels.BF16, kernels.F16} {
		if err := transpose(g, be, dt, 7, 1000); err != nil {
			return err
		}
	}
	return checkGather(g, be, 3)
}

// TestOtherProcess is the second rank. It reads tables of groups from its input, and joins one group after the other.
func TestOtherProcess(t *testing.T) {
	how := os.Getenv(envOther)
	if how == "" {
		t.Skip("it is a part of TestTwoProcesses")
	}
	node, err := Listen("127.0.0.1:0", token)
	if err != nil {
		t.Fatal(err)
	}
	defer node.Close()
	fmt.Printf("at %s\n", node.Addr())
	be := gpu(t, 1)
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		var table Table
		if err := json.Unmarshal(in.Bytes(), &table); err != nil {
			t.Fatal(err)
		}
		ends, err := node.Join(t.Context(), table, []int{1}, []kernels.Backend{be})
		if err != nil {
			t.Fatal(err)
		}
		if how == "killed" {
			time.AfterFunc(300*time.Millisecond, func() { syscall.Kill(os.Getpid(), syscall.SIGKILL) })
		}
		err = rounds(t.Context(), ends[0], be, patience)
		ends[0].(io.Closer).Close()
		if err != nil {
			be = gpu(t, 1) // a backend keeps its first error
		}
		fmt.Printf("round %v %+v\n", err, node.Links())
	}
}

// other is the process of the second rank, as the first sees it.
type other struct {
	t    *testing.T
	cmd  *exec.Cmd
	in   io.WriteCloser
	out  *bufio.Scanner
	addr string
}

// startOther starts the process of the second rank for a case of TestTwoProcesses, with more environment variables.
func startOther(t *testing.T, how string, env ...string) *other {
	t.Helper()
	o := &other{t: t, cmd: exec.Command(os.Args[0], "-test.run=^TestOtherProcess$")}
	o.cmd.Env = append(append(os.Environ(), envOther+"="+how), env...)
	o.cmd.Stderr = os.Stderr
	var err error
	if o.in, err = o.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := o.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	o.out = bufio.NewScanner(out)
	if err := o.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { o.in.Close(); o.cmd.Wait() })
	o.addr = strings.TrimPrefix(o.readLine(), "at ")
	return o
}

// readLine returns the next line that the process writes.
func (o *other) readLine() string {
	o.t.Helper()
	if !o.out.Scan() {
		o.t.Errorf("the other process has ended: %v", o.out.Err())
	}
	return o.out.Text()
}

// round makes both processes exchange as one group, and returns the error of this process.
func (o *other) round(node *Node, be kernels.Backend, wait time.Duration) error {
	o.t.Helper()
	table := NewTable([]string{"", o.addr})
	table.Link = true
	text, err := json.Marshal(table)
	if err != nil {
		o.t.Fatal(err)
	}
	fmt.Fprintf(o.in, "%s\n", text)
	ends, err := node.Join(o.t.Context(), table, []int{0}, []kernels.Backend{be})
	if err != nil {
		o.t.Fatal(err)
	}
	defer closeAll(ends)
	return kernels.RunRanks(o.t.Context(), ends, grace, func(ctx context.Context, _ int, tr kernels.Transport) error {
		return rounds(ctx, tr, be, wait)
	})
}

// TestTwoProcesses: two processes exchange over NCCL. Whatever happens to the second, the first stops in time. If NCCL was the cause, the next
// group uses TCP and gets the same bytes. FAKE_FAIL=NAME:N:CODE makes the Nth call of a function of the fake NCCL fail.
func TestTwoProcesses(t *testing.T) {
	standIn(t, "2")
	gpu(t, 0) // start the thread of the device now, because it never ends
	for how, c := range map[string]struct {
		env   string // environment variable of the second process
		want  string // part of the error of the first process; "": none
		again bool   // there is another round, over TCP
		kept  bool   // there is another round, over the same communicator
	}{
		"well":             {env: "FAKE_FAIL=ncclCommInitRankConfig:2:2", kept: true},
		"killed":           {env: "FAKE_FAIL=ncclStall:3:1", want: "rank 1 is gone"},
		"stalled":          {env: "FAKE_FAIL=ncclStall:3:1", want: "waited 5s", again: true},
		"fails":            {env: "FAKE_FAIL=ncclRecv:4:3", want: "link cuda:", again: true},
		"no library":       {env: "LATENTBEAM_LIBNCCL=/nowhere/libnccl.so.2", again: true},
		"another version":  {env: "FAKE_NCCL=21805", again: true},
		"cannot be linked": {env: "FAKE_FAIL=ncclCommInitRankConfig:1:2", again: true},
	} {
		t.Run(how, func(t *testing.T) {
			before := runtime.NumGoroutine()
			o := startOther(t, how, c.env)
			node, began := NewNode(token), time.Now()
			wait := patience
			if how == "stalled" {
				wait = 5 * time.Second               // longer than any exchange that does not stall
				time.AfterFunc(time.Second, func() { // a second backend of the device, whose thread waits in the exchange
					gpu(t, 0).Alloc(kernels.F32, 1<<20)
					runtime.GC()
				})
			}
			gpu0 := gpu(t, 0)
			err := o.round(node, gpu0, wait)
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("got error %v, want %q", err, c.want)
			}
			if took := time.Since(began); took > patience/2 {
				t.Errorf("the first round took %v, want at most %v", took, patience/2)
			}
			if how != "killed" {
				t.Log(o.readLine())
			}
			if c.kept {
				if err := o.round(node, gpu0, wait); err != nil || node.Links().Linked != 2 || node.Links().TCP != 0 {
					t.Errorf("the second round: got %v, %+v; want two linked groups", err, node.Links())
				}
				t.Log(o.readLine())
			} else if c.again {
				if err := o.round(node, gpu(t, 0), patience); err != nil {
					t.Errorf("the second round: %v", err)
				}
				if text := o.readLine(); !strings.HasPrefix(text, "round <nil>") {
					t.Errorf("the second round of the other process: %s", text)
				}
				if facts := node.Links(); facts.TCP == 0 || len(facts.Why) == 0 {
					t.Errorf("the second round did not use TCP: %+v", facts)
				}
			} else if facts := node.Links(); facts.Linked != 1 || facts.Kind != "NCCL 2.27.3" {
				t.Errorf("got %+v, want one group linked by NCCL 2.27.3", facts)
			}
			o.in.Close()
			if err := o.cmd.Wait(); (err != nil) != (how == "killed") {
				t.Errorf("the other process ended with %v", err)
			}
			node.Close()
			checkGoroutines(t, before)
		})
	}
}

// astray is a device whose rank 1 uses another id for the link than the other ranks.
type astray struct {
	kernels.Backend
	kernels.Linker
}

func (a astray) Capabilities() kernels.Capabilities { return kernels.Capabilities{Linker: a} }

func (a astray) Link(ctx context.Context, id []byte, rank, size int) (kernels.Link, error) {
	if rank == 1 {
		id = []byte(strings.Replace(string(id), "nccl-", "nccl+", 1))
	}
	return a.Linker.Link(ctx, id, rank, size)
}

// TestWrongID: ranks that do not find each other by the id of the link exchange over TCP, after the time for linking has passed.
func TestWrongID(t *testing.T) {
	standIn(t, "2")
	var devices []kernels.Backend
	for i := range 2 {
		be := gpu(t, i)
		devices = append(devices, astray{be, be.Capabilities().Linker})
	}
	before := runtime.NumGoroutine()
	near, far := NewNode(token), (*Node)(nil)
	far, err := Listen("127.0.0.1:0", token)
	if err != nil {
		t.Fatal(err)
	}
	near.links.within = 200 * time.Millisecond // time for linking; the far node takes it over
	table := NewTable([]string{"", far.Addr()})
	table.Link = true
	ends, errs := make([]kernels.Transport, 2), make(chan error, 2)
	for r, node := range []*Node{near, far} {
		go func() {
			mine, err := node.Join(t.Context(), table, []int{r}, devices[r:r+1])
			if err == nil {
				ends[r] = mine[0]
			}
			errs <- err
		}()
	}
	if err := errors.Join(<-errs, <-errs); err != nil {
		t.Fatal(err)
	}
	err = kernels.RunRanks(t.Context(), ends, grace, func(ctx context.Context, i int, tr kernels.Transport) error {
		return rounds(ctx, tr, devices[i], patience)
	})
	if err != nil {
		t.Error(err)
	}
	closeAll(ends)
	if why := fmt.Sprint(near.Links().Why); near.Links().TCP != 1 || !strings.Contains(why, "not linked within 200ms") {
		t.Errorf("got %+v, want one group over TCP because of not linked within 200ms", near.Links())
	}
	far.Close()
	near.Close()
	checkGoroutines(t, before)
}
