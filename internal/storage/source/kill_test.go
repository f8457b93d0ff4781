//go:build unix

package source

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"latentbeam/internal/storage/store/bucket/buckettest"
	"latentbeam/internal/system/testaid"
)

// childEnv makes this test a program that copies a model.
const childEnv = "LATENTBEAM_TEST_COPY"

func TestMain(m *testing.M) {
	if at := os.Getenv(childEnv); at != "" {
		if _, err := Model(context.Background(), at); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

const killsMax = 7

// TestKilledCopy kills processes that copy a model. The next one goes on where the last was, so that little is read
// twice, and what it makes is whole.
func TestKilledCopy(t *testing.T) {
	testaid.Long(t, "kills processes")
	inBuckets(t, func(t *testing.T, root string, server *buckettest.Server) {
		want, total := map[string]string{}, int64(0)
		for i := range 4 {
			content := make([]byte, 24<<20+i)
			_, _ = rand.Read(content)
			want[fmt.Sprintf("m/part-%d.safetensors", i)] = string(content)
			total += int64(len(content))
		}
		put(t, root, want)
		var sent, asked atomic.Int64
		inner := server.Service
		kill := make(chan bool, 1000)
		server.Service = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			inner.ServeHTTP(counted{w, &sent}, r)
			if asked.Add(1)%9 == 0 && asked.Load() < 9*killsMax {
				kill <- true
				time.Sleep(20 * time.Millisecond)
			}
		})
		kills := 0 // a process that lists and describes makes six requests before it reads
		for ended := false; !ended; {
			cmd := exec.Command(os.Args[0])
			cmd.Env = append(os.Environ(), childEnv+"="+root+"/m")
			var said strings.Builder
			cmd.Stderr = &said
			must(t, cmd.Start())
			end := make(chan error, 1)
			go func() { end <- cmd.Wait() }()
			select {
			case <-kill:
				_ = cmd.Process.Kill()
				<-end
				kills++
			case err := <-end:
				if err != nil {
					t.Fatalf("%v: %s", err, &said)
				}
				ended = true
			}
			for len(kill) > 0 {
				<-kill
			}
		}
		dir, err := Model(t.Context(), root+"/m")
		must(t, err)
		same(t, dir, "m/", want)
		t.Logf("%d processes were killed; %d bytes were sent of %d", kills, sent.Load(), total)
		// A killed process loses the ranges that were on their way, one for each file at most.
		if most := total + int64(kills)*filesAtOnce*rangeBytes; kills < 2 || sent.Load() > most {
			t.Errorf("%d kills, %d bytes sent, at most %d are right", kills, sent.Load(), most)
		}
	})
}

// counted counts the bytes of an answer.
type counted struct {
	http.ResponseWriter
	n *atomic.Int64
}

func (c counted) Write(p []byte) (int, error) {
	c.n.Add(int64(len(p)))
	return c.ResponseWriter.Write(p)
}
