package config

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"
	_ "time/tzdata" // zones, on hosts without a list of them
)

// DateEnv is the environment variable that says to the shards of a job what date it is.
const DateEnv = "LATENTBEAM_DATE"

var (
	dated  = regexp.MustCompile(`\{(date|year|month|day|hour)\}`)
	braced = regexp.MustCompile(`\{([A-Za-z]+)\}`)
	dollar = regexp.MustCompile(`\$([A-Za-z_][A-Za-z0-9_]*)`)
	inPath = regexp.MustCompile(`\$\{([A-Za-z_][A-Za-z0-9_]*)\}`)
)

// dates are the layouts of what stands in braces.
var dates = map[string]string{"date": "2006-01-02", "year": "2006", "month": "01", "day": "02", "hour": "15"}

// ResolveOutput puts the date and environment variables into output.path: {date}, {year}, {month}, {day}, {hour} and ${NAME}.
// The date is that of now, in UTC or output.timezone; LATENTBEAM_DATE (2006-01-02, or RFC 3339) takes its place. A shard
// needs it there: shards that begin on two sides of midnight would have two outputs.
func (c *Config) ResolveOutput(now time.Time, getenv func(string) string, shards int) error {
	path := c.Output.Path
	if dated.MatchString(path) {
		at, err := c.date(now, getenv(DateEnv), shards)
		if err != nil {
			return err
		}
		path = dated.ReplaceAllStringFunc(path, func(s string) string {
			if s == "{hour}" && again(at) {
				return at.Format(dates["hour"] + "-0700")
			}
			return at.Format(dates[strings.Trim(s, "{}")])
		})
	}
	var missing string
	path = inPath.ReplaceAllStringFunc(path, func(s string) string {
		v := getenv(inPath.FindStringSubmatch(s)[1])
		if v == "" {
			missing = s
		}
		return v
	})
	if missing != "" {
		return c.Errorf("output.path", "output.path has %s, and the environment has no such variable", missing).
			WithFix("set it, or write the path out")
	}
	if err := c.slipOf(path, getenv); err != nil {
		return err
	}
	c.Output.Path = path
	return nil
}

// again reports whether the zone of at had the same hour before on that day: at the end of summer time an hour comes twice. Without
// another name the job of the second one would find the first one's output, and nothing to do.
func again(at time.Time) bool {
	const hour, step = "2006-01-02 15", 30 * time.Minute
	_, offset := at.Zone()
	for before := step; before <= 24*time.Hour; before += step {
		earlier := at.Add(-before)
		if _, o := earlier.Zone(); o != offset && earlier.Format(hour) == at.Format(hour) {
			return true
		}
	}
	return false
}

// slipOf finds what was surely meant to be replaced: a word in braces that is nearly a date, a variable without braces.
func (c *Config) slipOf(path string, getenv func(string) string) error {
	for _, m := range braced.FindAllStringSubmatch(c.Output.Path, -1) {
		if near := Near(strings.ToLower(m[1]), slices.Collect(maps.Keys(dates))); near != "" && near != m[1] {
			return c.Errorf("output.path", "output.path has %s, which stands for nothing", m[0]).WithFix("write {%s}", near)
		}
	}
	if m := dollar.FindStringSubmatch(path); m != nil && getenv(m[1]) != "" {
		return c.Errorf("output.path", "output.path has %s without braces", m[0]).WithFix("write ${%s}", m[1])
	}
	return nil
}

// date is what the braces mean.
func (c *Config) date(now time.Time, given string, shards int) (time.Time, error) {
	zone, err := time.LoadLocation(c.Output.Timezone) // "" is UTC
	if err != nil {
		return now, c.Errorf("output.timezone", "output.timezone: %v", err).WithFix("write it as Europe/Berlin")
	}
	if given == "" && shards > 1 {
		return now, c.Errorf("output.path", "output.path has a date, and every shard may see another one").
			WithFix("set %s for all shards, such as %s", DateEnv, now.In(zone).Format(time.DateOnly))
	}
	if given == "" {
		return now.In(zone), nil
	}
	at, err := time.ParseInLocation(time.DateOnly, given, zone)
	if err != nil {
		var rfc error
		if at, rfc = time.Parse(time.RFC3339, given); rfc != nil {
			return now, c.Errorf("output.path", "%s is %q, which is no date", DateEnv, given).WithFix("write it as 2006-01-02")
		}
	} else if strings.Contains(c.Output.Path, "{hour}") {
		return now, c.Errorf("output.path", "output.path has {hour}, and %s is a day", DateEnv).WithFix("write it as 2006-01-02T15:04:05Z")
	}
	return at.In(zone), nil
}
