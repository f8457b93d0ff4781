package main

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// side is a process that times cases on request.
type side struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Scanner
}

// open starts a process. log receives its messages.
func open(log io.Writer, env []string, command ...string) (*side, error) {
	s := &side{cmd: exec.Command(command[0], command[1:]...)}
	s.cmd.Env, s.cmd.Stderr = append(os.Environ(), env...), log
	in, err := s.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	s.in, s.out = in, bufio.NewScanner(out)
	if err := s.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", command[0], err)
	}
	return s, nil
}

// ask sends a line and reads the numbers of the answer, which must begin with the word want.
func (s *side) ask(line, want string, numbers ...any) error {
	if _, err := fmt.Fprintln(s.in, line); err != nil {
		return fmt.Errorf("%s: %w", filepath.Base(s.cmd.Path), err)
	}
	if !s.out.Scan() {
		return fmt.Errorf("%s ended at %q", filepath.Base(s.cmd.Path), line)
	}
	rest, ok := strings.CutPrefix(s.out.Text(), want)
	if _, err := fmt.Sscan(rest, numbers...); !ok || len(numbers) > 0 && err != nil {
		return fmt.Errorf("%s answers %q with %s", filepath.Base(s.cmd.Path), line, s.reason())
	}
	return nil
}

// reason returns the output of a process that gave no answer, without the usual lines of a test.
func (s *side) reason() string {
	var said []string
	for range 20 {
		text := strings.TrimSpace(s.out.Text())
		if head, _, _ := strings.Cut(text, " "); text != "" && head != "---" && head != "FAIL" {
			said = append(said, text)
		}
		if !s.out.Scan() {
			break
		}
	}
	return strings.Join(said, "; ")
}

// best runs a case warm times without measuring and then rounds times, and returns the fewest milliseconds.
func (s *side) best(name string, warm, rounds int) (float64, error) {
	least := math.Inf(1)
	for i := range warm + rounds {
		var seconds float64
		if err := s.ask(name, "seconds ", &seconds); err != nil {
			return 0, err
		}
		if i >= warm {
			least = min(least, 1e3*seconds)
		}
	}
	return least, nil
}

// result returns the result of the last case.
func (s *side) result() ([]float32, error) {
	dir, err := os.MkdirTemp("", "timings-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "result")
	if err := s.ask("result "+path, "written"); err != nil {
		return nil, err
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	out := make([]float32, len(data)/4)
	for i := range out {
		out[i] = math.Float32frombits(binary.LittleEndian.Uint32(data[4*i:]))
	}
	return out, nil
}

// close ends the process, which frees its memory on the device.
func (s *side) close() {
	_ = s.in.Close()
	for s.out.Scan() {
	}
	_ = s.cmd.Wait()
}

// rmsDifference returns the root mean square of the differences divided by the root mean square of want, or infinity if they cannot be
// compared.
func rmsDifference(got, want []float32) float64 {
	if len(got) != len(want) || len(got) == 0 {
		return math.Inf(1)
	}
	var diff, all float64
	for i, w := range want {
		d := float64(got[i]) - float64(w)
		diff, all = diff+d*d, all+float64(w)*float64(w)
	}
	return math.Sqrt(diff / all)
}
