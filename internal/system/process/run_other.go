//go:build !unix

package process

// run starts the child, calls started and waits for its end. This system has no process groups.
func (p *Child) run(_ Command, started func(pid int, end func(), err error)) (Shortage, error) {
	if err := p.cmd.Start(); err != nil {
		started(0, nil, err)
		return Enough, err
	}
	started(p.cmd.Process.Pid, func() { _ = p.cmd.Process.Kill() }, nil)
	how := p.cmd.Wait()
	p.reap()
	return Enough, exitOf(how)
}

func limitData(int, int64) {}
