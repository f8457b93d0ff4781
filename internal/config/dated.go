package config

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"
	_ "time/tzdata" // for hosts without a time zone database
)

// DateEnv is the environment variable that sets the date for all shards of a job.
const DateEnv = "LATENTBEAM_DATE"

var (
	datePattern     = regexp.MustCompile(`\{(date|year|month|day|hour)\}`)
	bracePattern    = regexp.MustCompile(`\{([A-Za-z]+)\}`)
	variablePattern = regexp.MustCompile(`\$([A-Za-z_][A-Za-z0-9_]*)`)
	pathVariable    = regexp.MustCompile(`\$\{([A-Za-z_][A-Za-z0-9_]*)\}`)
)

// dateLayouts maps the words in braces to layouts of package time.
var dateLayouts = map[string]string{"date": "2006-01-02", "year": "2006", "month": "01", "day": "02", "hour": "15"}

// ResolveOutput replaces {date}, {year}, {month}, {day}, {hour} and ${NAME} in output.path by the date and by environment
// variables. The date is LATENTBEAM_DATE (2006-01-02, or RFC 3339) if that is set, else now, in UTC or output.timezone. Shards
// need LATENTBEAM_DATE, because shards that start before and after midnight would otherwise write to two outputs.
func (c *Config) ResolveOutput(now time.Time, getenv func(string) string, shards int) error {
	path := c.Output.Path
	if datePattern.MatchString(path) {
		at, err := c.date(now, getenv(DateEnv), shards)
		if err != nil {
			return err
		}
		path = datePattern.ReplaceAllStringFunc(path, func(s string) string {
			if s == "{hour}" && repeatedHour(at) {
				return at.Format(dateLayouts["hour"] + "-0700")
			}
			return at.Format(dateLayouts[strings.Trim(s, "{}")])
		})
	}
	var missing string
	path = pathVariable.ReplaceAllStringFunc(path, func(s string) string {
		v := getenv(pathVariable.FindStringSubmatch(s)[1])
		if v == "" {
			missing = s
		}
		return v
	})
	if missing != "" {
		return c.Errorf("output.path", "output.path has %s, and the environment has no such variable", missing).
			WithFix("set it, or write the path out")
	}
	if err := c.checkTyping(path, getenv); err != nil {
		return err
	}
	c.Output.Path = path
	return nil
}

// repeatedHour reports whether the local hour of at already occurred earlier on that day: at the end of summer time an hour comes twice.
// The second one needs another name, because its job would otherwise find the output of the first one and do nothing.
func repeatedHour(at time.Time) bool {
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

// checkTyping returns an error for likely typing mistakes in output.path: a word in braces that resembles a date, or a variable
// without braces.
func (c *Config) checkTyping(path string, getenv func(string) string) error {
	for _, m := range bracePattern.FindAllStringSubmatch(c.Output.Path, -1) {
		if near := Near(strings.ToLower(m[1]), slices.Collect(maps.Keys(dateLayouts))); near != "" && near != m[1] {
			return c.Errorf("output.path", "output.path has %s, which stands for nothing", m[0]).WithFix("write {%s}", near)
		}
	}
	if m := variablePattern.FindStringSubmatch(path); m != nil && getenv(m[1]) != "" {
		return c.Errorf("output.path", "output.path has %s without braces", m[0]).WithFix("write ${%s}", m[1])
	}
	return nil
}

// date returns the time that the words in braces stand for.
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
