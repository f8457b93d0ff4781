package exectest

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"latentbeam/kernels"
	"latentbeam/stages/weights/safetensors"
)

// Environment variables of the program.
const (
	envGives = "LATENTBEAM_TEST_GIVES" // what the program gives; if set, this process is the program
	envState = "LATENTBEAM_TEST_STATE" // directory for what it has done once
	envTrace = "LATENTBEAM_TEST_TRACE" // file that receives every line of the protocol
	envTakes = "LATENTBEAM_TEST_TAKES"
	envFill  = "LATENTBEAM_TEST_FILL" // if set, this process allocates memory until there is none
)

// Main must be called first in TestMain. If this process was started as the program, Main runs the program and does not return.
func Main() {
	if os.Getenv(envFill) != "" {
		fill()
	}
	if gives := os.Getenv(envGives); gives != "" {
		c := &child{takes: os.Getenv(envTakes), gives: gives, out: os.NewFile(4, "answers"), cancelled: map[int]bool{}}
		c.serve(os.NewFile(3, "requests"))
		os.Exit(0)
	}
}

// Options returns the YAML map of an exec stage that runs this test binary. more has further options, each preceded by a comma.
// state is a directory for what the program does once.
func Options(takes, gives, state, more string) string {
	program, err := os.Executable()
	if err != nil {
		panic(err)
	}
	return fmt.Sprintf("{command: [%q], takes: %s, gives: %s, secrets: [%s], env: {%s: %s, %s: %s, %s: %q}%s}", program,
		takes, gives, envState, envGives, gives, envTakes, takes, envState, state, more)
}

// Trace returns the environment entry that makes the program write all lines of the protocol to a file.
func Trace(file string) (name, value string) { return envTrace, file }

// request is a line that is sent to the program.
type request struct {
	V       int      `json:"v"`
	Type    string   `json:"type"`
	Batch   int      `json:"batch"`
	Devices []string `json:"devices"`
	Scratch string   `json:"scratch"`
	Rows    []row    `json:"rows"`
}

type row struct {
	ID     string            `json:"id"`
	Key    string            `json:"key"`
	Seed   int64             `json:"seed"`
	Params map[string]any    `json:"params"`
	Inputs map[string]string `json:"inputs"`
}

func (r row) prompt() string { s, _ := r.Params["prompt"].(string); return s }

func (r row) number(name string, byDefault int) int {
	if v, ok := r.Params[name].(float64); ok {
		return int(v)
	}
	return byDefault
}

type child struct {
	takes, gives string
	mu           sync.Mutex // for out
	out          *os.File
	silent       bool
	cancelled    map[int]bool
}

// serve answers requests until there are no more.
func (c *child) serve(in *os.File) {
	go func() {
		for range time.Tick(50 * time.Millisecond) {
			c.send(map[string]any{"type": "heartbeat"})
		}
	}()
	batches := make(chan request, 8)
	go func() {
		lines := bufio.NewReader(in)
		for {
			line, err := lines.ReadBytes('\n')
			if err != nil {
				close(batches)
				return
			}
			c.trace("> ", line)
			var r request
			if err := json.Unmarshal(line, &r); err != nil {
				panic(err)
			}
			switch r.Type {
			case "hello":
				c.send(map[string]any{"v": 1, "type": "hello", "takes": c.takes, "gives": c.gives, "heartbeat": 0.05})
			case "cancel":
				c.mu.Lock()
				c.cancelled[r.Batch] = true
				c.mu.Unlock()
			case "batch":
				batches <- r
			}
		}
	}()
	for r := range batches {
		c.batch(r)
	}
}

// send sends a message.
func (c *child) send(m map[string]any) {
	line, err := json.Marshal(m)
	if err != nil {
		panic(err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.silent {
		c.out.Write(append(line, '\n'))
		c.trace("< ", line)
	}
}

func (c *child) trace(mark string, line []byte) {
	name := os.Getenv(envTrace)
	if name == "" {
		return
	}
	f, err := os.OpenFile(name, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		panic(err)
	}
	defer f.Close()
	fmt.Fprintf(f, "%s%s\n", mark, bytes.TrimSpace(line))
}

func (c *child) batch(r request) {
	c.send(map[string]any{"type": "log", "level": "debug", "message": "a batch has come"})
	for i, row := range r.Rows {
		c.send(map[string]any{"type": "progress", "batch": r.Batch, "key": row.Key, "step": i + 1, "of": len(r.Rows)})
		how := c.asked(row)
		if c.misbehave(r, row, how) {
			continue
		}
		path, err := c.make(r, row, how)
		if err != nil {
			c.send(map[string]any{"type": "error", "batch": r.Batch, "key": row.Key, "class": "row", "message": err.Error()})
			continue
		}
		m := map[string]any{"type": "result", "batch": r.Batch, "key": row.Key, "readings": map[string]string{
			"device": os.Getenv("CUDA_VISIBLE_DEVICES"), "seed": fmt.Sprint(row.Seed)}}
		if path != "" {
			m["outputs"] = map[string]string{c.gives: path}
		}
		c.send(m)
	}
	c.send(map[string]any{"type": "done", "batch": r.Batch})
}

// asked returns how the prompt asks the program to misbehave, such as "crash" for "do:crash"; "" if it does not. Requests with
// "once" are done only at the first attempt.
func (c *child) asked(r row) string {
	_, rest, _ := strings.Cut(r.prompt(), "do:")
	how, _, _ := strings.Cut(rest, " ")
	how, once := strings.CutSuffix(how, "-once")
	if once {
		mark := filepath.Join(os.Getenv(envState), r.Key)
		f, err := os.OpenFile(mark, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
		if err != nil {
			return ""
		}
		f.Close()
	}
	return how
}

// make writes the program's output for a row.
func (c *child) make(r request, row row, how string) (string, error) {
	w, h, n := row.number("width", 16), row.number("height", 16), row.number("num_frames", 2)
	name := filepath.Join(r.Scratch, row.Key)
	switch c.gives {
	case "prompt":
		name += ".txt"
		return name, os.WriteFile(name, []byte("a new "+row.prompt()), 0o600)
	case "frames":
		shape := []int{n, h, w, 3}
		if how == "shape" {
			shape = []int{n, h * w, 3}
		}
		data := make([]byte, n*h*w*3)
		for i := range data {
			data[i] = byte(int(row.Seed) + i/3 + 7*len(row.prompt()))
		}
		name += ".safetensors"
		return name, write(name, map[string]safetensors.Tensor{"frames": {DType: "U8", Shape: shape, Data: data}})
	case "latents", "text":
		return name + ".safetensors", c.tensor(name+".safetensors", row, how)
	case "video", "media":
		if path := row.Inputs["media"]; path != "" {
			if _, err := os.Stat(path); err != nil {
				return "", err
			}
		}
		img := image.NewRGBA(image.Rect(0, 0, w, h))
		for x := range w {
			img.Set(x, x%h, color.RGBA{255, byte(row.Seed), byte(len(row.prompt())), 255})
		}
		var b bytes.Buffer
		if err := png.Encode(&b, img); err != nil {
			return "", err
		}
		name += ".png"
		return name, os.WriteFile(name, b.Bytes(), 0o600)
	}
	return "", fmt.Errorf("this program cannot give %s", c.gives)
}

// tensor returns the input tensor, or numbers.
func (c *child) tensor(name string, row row, how string) error {
	tensor, shape := "latents", []int{4, row.number("num_frames", 2), row.number("height", 16) / 8, row.number("width", 16) / 8}
	if c.gives == "text" {
		tensor, shape = "embedding", []int{3, 8}
	}
	data := make([]byte, 4*kernels.Elements(shape)) // small numbers, all finite
	if in := row.Inputs[c.gives]; in != "" {
		f, err := safetensors.Open(in)
		if err != nil {
			return err
		}
		defer f.Close()
		t, _ := f.Tensor(tensor)
		data, shape = bytes.Clone(t.Data), t.Shape
	}
	if how == "nan" {
		copy(data, []byte{0, 0, 0xc0, 0x7f})
	}
	return write(name, map[string]safetensors.Tensor{tensor: {DType: "F32", Shape: shape, Data: data}})
}

func write(name string, tensors map[string]safetensors.Tensor) error {
	f, err := os.OpenFile(name, os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	if err := safetensors.Write(f, tensors, nil); err != nil {
		f.Close()
		return err
	}
	return f.Close()
}
