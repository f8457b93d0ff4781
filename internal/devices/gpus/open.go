package gpus

import (
	"fmt"
	"log/slog"
	"slices"
)

// open claims and opens as many candidates as the options say. If a candidate cannot be opened, open tries another
// one. If the options give no number, the job continues with fewer, after a warning.
func (p *Pool) open(fit []candidate) error {
	n := p.o.Workers
	var spoiled []candidate
	for len(fit) > 0 && (n == 0 || len(p.devices) < n) {
		taken, rest, busy, err := claim(p.survey, fit, max(0, n-len(p.devices)), p.o.Claims, p.o.What)
		p.left = append(p.left, busy...)
		if err != nil {
			return fmt.Errorf("%w%s", err, describe(p.left))
		}
		for _, c := range taken {
			if !p.add(c) {
				spoiled = append(spoiled, c.candidate)
			}
		}
		fit = rest
	}
	switch {
	case len(p.devices) < n:
		return fewer(n, len(p.devices), p.left)
	case len(p.devices) == 0:
		return p.none()
	}
	for _, c := range fit {
		d := p.survey.Devices[c.index]
		p.left = append(p.left, Left{d.UUID, d.Name, "the job asked for fewer"})
	}
	slices.SortFunc(p.devices, func(a, b *pooled) int { return a.index - b.index })
	p.warn(spoiled)
	return nil
}

// add opens a claimed device. On an error it releases the claim and records the reason.
func (p *Pool) add(c claimed) bool {
	d := p.survey.Devices[c.index]
	be, err := p.maker.Open(d.UUID)
	if err == nil && len(p.devices) > 0 && be.Class() != p.class { // before opening it reported another class
		err = fmt.Errorf("it computes in class %s, the others in %s", be.Class(), p.class)
	} else if err != nil {
		err = fmt.Errorf("it cannot be opened: %w", err)
	}
	if err != nil {
		c.release()
		p.left = append(p.left, Left{d.UUID, d.Name, err.Error()})
		return false
	}
	p.class = be.Class()
	p.devices = append(p.devices, &pooled{Device: d, index: c.index, plan: p.planned(c.candidate), be: be,
		release: c.release})
	return true
}

// warn logs the devices that the job cannot use, and the consequence.
func (p *Pool) warn(spoiled []candidate) {
	var there, lost float64
	for _, d := range p.devices {
		there += d.plan.Rate
	}
	for _, c := range spoiled {
		lost += c.rate
	}
	costs := fmt.Sprintf("the job has %d GPUs of %d, %.0f %% of their speed", len(p.devices),
		len(p.devices)+len(spoiled), 100*there/(there+lost))
	if p.o.Workers > 0 {
		costs = "nothing: the job asked for a number, and others take its place"
	}
	for _, c := range spoiled {
		d := p.survey.Devices[c.index]
		why := p.left[slices.IndexFunc(p.left, func(l Left) bool { return l.UUID == d.UUID })].Why
		slog.Warn("a GPU is left out", "device", fmt.Sprintf("%s (%s)", d.Short(), d.Name), "why", why,
			"costs", costs, "more", "latentbeam doctor")
	}
}
