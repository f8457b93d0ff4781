package devices

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"strings"
	"time"

	"latentbeam/internal/storage/fingerprints"
	"latentbeam/internal/system"
	"latentbeam/kernels/cpu"
)

// speedAge is how long a measured speed is used by later runs. Longer, and the machine may have changed.
const speedAge = 24 * time.Hour

// remembered is a measured speed in the file of this host.
type remembered struct {
	Measured time.Time
	Speed    Speed
}

// speedsFile returns the path of the file in which this host keeps measured speeds: a JSON object of remembered speeds by their id.
func speedsFile() (string, error) {
	dir, err := fingerprints.CacheDir()
	return filepath.Join(dir, "speeds.json"), err
}

// id identifies the processors, the program and the setup that a speed was measured with. It is "" for devices whose speed is not
// remembered.
func (k Setup) id() string {
	program, err := os.Executable()
	if err != nil || k.Device != "cpu" {
		return ""
	}
	file, err := os.Stat(program)
	if err != nil {
		return ""
	}
	host, _ := os.Hostname()
	instructions, _, _ := strings.Cut(cpu.Computes(), " (") // without measured rates
	return fmt.Sprintf("%s, %s, %s, program of %d bytes at %d, %+v", host, system.ProcessorName(), instructions, file.Size(), file.ModTime().UnixNano(), k)
}

// recallSpeed returns the speed that an earlier run of the program measured with setup k, or an empty one.
func recallSpeed(k Setup) Speed {
	known := readSpeedsAt(time.Now())[k.id()]
	return known.Speed
}

// readSpeedsAt returns the speeds in the file that are valid and, at time now, not too old. A file that cannot be read has none.
func readSpeedsAt(now time.Time) map[string]remembered {
	path, err := speedsFile()
	if err != nil {
		return nil
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil
	}
	var all map[string]remembered
	if json.Unmarshal(data, &all) != nil {
		return nil
	}
	maps.DeleteFunc(all, func(_ string, r remembered) bool {
		age := now.Sub(r.Measured)
		return age < 0 || age > speedAge || !r.Speed.valid()
	})
	return all
}

// valid reports whether all numbers of s can be measured ones.
func (s *Speed) valid() bool {
	can := func(v float64) bool { return v >= 0 && v < 1 } // seconds of one FLOP, element or call
	for _, types := range s.Price.Products {
		for _, p := range types {
			if !can(p.FLOP) || !can(p.Elements) {
				return false
			}
		}
	}
	return can(s.Price.Calls) && can(s.Price.Elements) && can(s.Price.Rows) && s.Bandwidth > 0 && s.Bandwidth < math.MaxFloat64
}

// rememberSpeed keeps the speed of setup k for later runs.
func rememberSpeed(k Setup, s Speed) {
	id := k.id()
	if id == "" {
		return
	}
	path, err := speedsFile()
	if err == nil {
		all := readSpeedsAt(time.Now())
		if all == nil {
			all = map[string]remembered{}
		}
		all[id] = remembered{time.Now(), s}
		var data []byte
		if data, err = json.Marshal(all); err == nil {
			err = system.ReplaceFile(path, data)
		}
	}
	fingerprints.WarnCache(err)
}
