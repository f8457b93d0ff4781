package gpus

import (
	"slices"

	"latentbeam/internal/devices/nvml"
	"latentbeam/stages/layout"
)

// Inspect returns the devices that Open would open, and the numeric class of their results. It neither claims nor opens
// them, so that a plan does not block a job.
func Inspect(host nvml.Host, maker Maker, o Options) (devices []layout.DeviceModel, class string, err error) {
	p := &Pool{maker: maker, host: host, o: o.filled()}
	fit, err := p.fit()
	if err != nil {
		return nil, "", err
	}
	open := map[int]candidate{}
	var indexes []int
	for _, c := range fit {
		d := p.survey.Devices[c.index]
		if busy := nvml.Holder(p.o.Claims, d.UUID); busy != nil {
			p.left = append(p.left, Left{d.UUID, d.Name, busy.Error()})
			continue
		}
		open[c.index], indexes = c, append(indexes, c.index)
	}
	switch n := len(indexes); {
	case n == 0:
		return nil, "", p.none()
	case n < o.Workers:
		return nil, "", fewer(o.Workers, n, p.left)
	case o.Workers > 0:
		indexes = p.survey.Choose(indexes, o.Workers)
	}
	for _, i := range slices.Sorted(slices.Values(indexes)) {
		devices = append(devices, p.planned(open[i]))
		class = open[i].class
	}
	return devices, class, nil
}
