// Command program is latentbeam with the stage probe for tests of clusters. The stage computes almost nothing, sleeps for a given time,
// and fails or kills its process if a prompt says so.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"latentbeam"
	"latentbeam/kernels"
	"latentbeam/schemas"
	"latentbeam/schemas/fault"
	"latentbeam/stages"
)

func main() {
	os.Exit(latentbeam.Main(stages.Spec{
		Name: "probe", Doc: "for tests of clusters", In: stages.KindPrompt, Out: stages.KindLatents, Version: 1,
		Params: []stages.Param{stages.ParamPrompt, stages.ParamSeed},
		New: func(_ *stages.Model, o stages.Options) (stages.Stage, error) {
			var p probe
			return &p, o.Into(&p)
		},
	}))
}

// probe is the stage. Its options change no result, so they are not part of keys.
type probe struct {
	Sleep int    `yaml:"sleep_ms" json:"-"` // for each row
	Log   string `yaml:"log" json:"-"`      // directory for the logs of the processes
}

// note is a line of a process's log.
type note struct {
	PID        int
	Host       string
	Begin, End float64 // seconds since the epoch
	Rows       int
}

// The environment of a worker gives the name of the host that it stands for, and how many times slower it is.
const (
	hostVariable = "LATENTBEAM_PROBE_HOST"
	slowVariable = "LATENTBEAM_PROBE_SLOW"
)

// Digest returns "": there are no weights.
func (*probe) Digest() string { return "" }

// Check returns an error for rows with the prompt refuse.
func (*probe) Check(row *schemas.PromptRow) error {
	if row.Prompt == "refuse" {
		return fmt.Errorf("prompt: the row asks for it")
	}
	return nil
}

// Need returns 0.
func (*probe) Need(*schemas.PromptRow, int) (int64, error) { return 0, nil }

// Capabilities returns none.
func (*probe) Capabilities() stages.Capabilities { return stages.Capabilities{} }

// Run gives each row latents that depend only on its prompt and seed.
func (p *probe) Run(ctx context.Context, _ kernels.Backend, batch []*stages.Element) error {
	began := time.Now()
	slow := 1.0
	if f, err := strconv.ParseFloat(os.Getenv(slowVariable), 64); err == nil {
		slow = f
	}
	select {
	case <-time.After(time.Duration(float64(p.Sleep*len(batch)) * slow * float64(time.Millisecond))):
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	for _, e := range batch {
		if err := p.obey(e.Row.Prompt); err != nil {
			return err
		}
		h := fnv.New32()
		fmt.Fprint(h, e.Row.Prompt, *e.Row.Seed, e.Row.SampleIndex)
		a := stages.NewArray(1, 1, 2, 2)
		for i := range a.Data {
			a.Data[i] = float32(h.Sum32()%1000) + float32(i)
		}
		e.Latents, e.LatentScale = a, 1
	}
	return p.note(note{os.Getpid(), os.Getenv(hostVariable), seconds(began), seconds(time.Now()), len(batch)})
}

// obey executes the commands of a prompt: "kill" kills the process each time, "kill 2" twice, "trouble 1" ends the bundle once, and
// "fatal" ends the job.
func (p *probe) obey(prompt string) error {
	verb, times, counted := strings.Cut(prompt, " ")
	n, err := strconv.Atoi(times)
	if counted && err != nil || p.Log == "" {
		return nil
	}
	if counted && p.count(verb) > n {
		return nil
	}
	switch verb {
	case "kill":
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	case "trouble":
		return fault.TryAgain(fmt.Errorf("the row asks for trouble"))
	case "fatal":
		return fault.Fatal(fmt.Errorf("the row asks for the end"))
	}
	return nil
}

// count increments a counter that all processes share, and returns it.
func (p *probe) count(what string) int {
	path := filepath.Join(p.Log, what+".count")
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return 0
	}
	defer f.Close()
	fmt.Fprint(f, "x")
	info, err := f.Stat()
	if err != nil {
		return 0
	}
	return int(info.Size())
}

func (p *probe) note(n note) error {
	if p.Log == "" {
		return nil
	}
	line, err := json.Marshal(n)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(filepath.Join(p.Log, fmt.Sprintf("%d.jsonl", n.PID)), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return fault.Fatal(err)
	}
	defer f.Close()
	_, err = f.Write(append(line, '\n'))
	return err
}

func seconds(t time.Time) float64 { return float64(t.UnixMicro()) / 1e6 }
