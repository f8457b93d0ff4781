package exectest

import (
	"fmt"
	"os"
	osexec "os/exec"
	"path/filepath"
	"time"
)

// fill allocates memory until there is none.
func fill() {
	all := make([][]byte, 0)
	for range 1 << 20 {
		b := make([]byte, 1<<26)
		for i := 0; i < len(b); i += 4096 {
			b[i] = 1
		}
		all = append(all, b)
	}
	fmt.Fprintln(os.Stderr, len(all))
}

// misbehave does what a prompt asks for. It reports whether the row was answered or must not be answered.
func (c *child) misbehave(r request, row row, how string) bool {
	result := func(key, path string) {
		c.send(map[string]any{"type": "result", "batch": r.Batch, "key": key, "outputs": map[string]string{c.gives: path}})
	}
	switch how {
	case "crash":
		panic("the program is told to crash")
	case "exit":
		fmt.Fprintln(os.Stderr, "out of luck")
		os.Exit(3)
	case "killed":
		self, _ := os.FindProcess(os.Getpid())
		_ = self.Kill()
		time.Sleep(time.Hour)
	case "memory":
		fill()
	case "heavy": // a child allocates the memory
		self, err := os.Executable()
		if err != nil {
			panic(err)
		}
		child := osexec.Command(self)
		child.Env = append(os.Environ(), envFill+"=1")
		_ = child.Run()
		time.Sleep(time.Hour)
	case "nap":
		time.Sleep(100 * time.Millisecond)
		return false
	case "hang":
		c.mu.Lock()
		c.silent = true
		c.mu.Unlock()
		time.Sleep(time.Hour)
	case "slow": // it continues, and ignores a cancel
		time.Sleep(time.Hour)
	case "wait": // until it is cancelled
		for {
			c.mu.Lock()
			over := c.cancelled[r.Batch]
			c.mu.Unlock()
			if over {
				return true
			}
			time.Sleep(time.Millisecond)
		}
	case "missing":
		return true
	case "unknown":
		result("0123", "x")
	case "twice":
		path, _ := c.make(r, row, "")
		result(row.Key, path)
		result(row.Key, path)
	case "other":
		c.send(map[string]any{"type": "done", "batch": r.Batch + 7})
	case "garbage":
		c.out.WriteString("Loading checkpoint shards: 100%\n")
	case "stdout":
		fmt.Println("Loading checkpoint shards: 100%\x00\xff")
		return false
	case "outside":
		path := filepath.Join(os.Getenv(envState), "outside")
		_ = os.WriteFile(path, []byte("x"), 0o600)
		result(row.Key, path)
		return true
	case "link":
		path := filepath.Join(r.Scratch, "link"+row.Key)
		_ = os.Symlink("/etc/passwd", path)
		result(row.Key, path)
		return true
	case "nofile":
		result(row.Key, filepath.Join(r.Scratch, "nofile"))
		return true
	case "error", "retry", "fatal", "strange":
		class := map[string]string{"error": "row"}[how]
		if class == "" {
			class = how
		}
		c.send(map[string]any{"type": "error", "batch": r.Batch, "key": row.Key, "class": class, "message": "the program says no"})
		return true
	case "children": // one outlives the program, and one becomes a zombie
		for _, d := range []string{"3600", "0"} {
			if err := osexec.Command("sleep", d).Start(); err != nil {
				panic(err)
			}
		}
		os.Exit(1)
	case "session": // a child leaves the group
		cmd := osexec.Command("sleep", "3600")
		leave(cmd)
		if err := cmd.Start(); err != nil {
			panic(err)
		}
		os.Exit(1)
	}
	return false
}
