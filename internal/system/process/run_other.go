//go:build !unix

package process

// run starts the child, calls started and waits until the child ends. This system has no process groups.
func (p *Child) run(_ Command, started func(pid int, end func(), err error)) (Shortage, error) {
	if err := p.cmd.Start(); err != nil {
		started(0, nil, err)
		return NoShortage, err
	}
	started(p.cmd.Process.Pid, func() { _ = p.cmd.Process.Kill() }, nil)
	how := p.cmd.Wait()
	p.beforeReap()
	return NoShortage, exitOf(how)
}

func limitData(int, int64) {}
