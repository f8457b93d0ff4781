//go:build !unix

package process

import "os/exec"

// run starts the child, calls started and waits for its end. This system has no process groups.
func run(cmd *exec.Cmd, _ Command, _ string, started func(error), reap func()) (Shortage, error) {
	err := cmd.Start()
	started(err)
	if err != nil {
		return Enough, err
	}
	defer reap()
	return Enough, cmd.Wait()
}

func limitData(int, int64) {}

// end kills a child.
func end(cmd *exec.Cmd) { _ = cmd.Process.Kill() }
