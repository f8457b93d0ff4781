package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"latentbeam/internal/config/document"
	"latentbeam/internal/media/timestamp"
)

// Marks are the marks of synthetic media that a job requests with the option marks of encode_video.
type Marks struct {
	Given    bool   // the job names marks or "none"; false: the run decides
	IPTC     bool   // XMP with IPTC's term for how the media was made
	AIGC     bool   // the key AIGC of GB 45438-2025
	Producer string // for AIGC: who provides the service; "": not stated
	C2PA     bool   // a signed manifest of content credentials
	Prompt   bool   // for C2PA: the manifest contains the prompt and the parameters
	// Certificate and Key are PEM files for C2PA: a chain of certificates, and the key of the first certificate. Records contain only
	// the digest of the certificate.
	Certificate, Key string
	// TimeStampAuthority is the address of the authority that gives each C2PA signature a time stamp (RFC 3161); "": no time stamps.
	TimeStampAuthority string

	problem string // first problem of the list, or ""
}

// Problem returns the first problem of the list in a job, or "".
func (m Marks) Problem() string { return m.problem }

// Equal reports whether both request the same marks. The certificate and key do not matter.
func (m Marks) Equal(o Marks) bool {
	for _, one := range []*Marks{&m, &o} {
		one.Given, one.Certificate, one.Key = false, "", ""
	}
	return m == o
}

// Names returns the names of the marks.
func (m Marks) Names() (names []string) {
	if m.IPTC {
		names = append(names, "iptc")
	}
	if m.AIGC {
		names = append(names, "aigc")
	}
	if m.C2PA {
		names = append(names, "c2pa")
	}
	return names
}

// NoMarks is the value that requests no marks.
const NoMarks = "none"

// String formats the marks as in a job, without certificate and key: "none", or the names with their options.
func (m Marks) String() string {
	names := m.Names()
	for i, name := range names {
		var options []string
		if name == "aigc" && m.Producer != "" {
			options = append(options, fmt.Sprintf("producer: %q", m.Producer))
		}
		if name == "c2pa" && m.Prompt {
			options = append(options, "prompt: true")
		}
		if name == "c2pa" && m.TimeStampAuthority != "" {
			options = append(options, fmt.Sprintf("time_stamp_authority: %q", m.TimeStampAuthority))
		}
		if options != nil {
			names[i] = fmt.Sprintf("{%s: {%s}}", name, strings.Join(options, ", "))
		}
	}
	if len(names) > 0 {
		return "[" + strings.Join(names, ", ") + "]"
	}
	return NoMarks
}

// ParseMarks parses "none", or names separated by commas, as in a flag. Problem returns what is wrong with it.
func ParseMarks(text string) Marks {
	m := Marks{Given: true}
	if text != NoMarks {
		for _, name := range strings.Split(text, ",") {
			m.add(strings.TrimSpace(name), nil)
		}
	}
	return m
}

// fromNode implements fromNode.
func (m *Marks) fromNode(n *document.Node) (string, bool) {
	const wanted = "none, or a list such as [iptc, aigc]"
	*m = Marks{Given: true}
	if n.Kind == document.TextKind && n.Text == NoMarks {
		return wanted, true
	}
	if n.Kind != document.ListKind || len(n.Items) == 0 {
		return wanted, false
	}
	for _, item := range n.Items {
		switch {
		case item.Kind == document.TextKind:
			m.add(item.Text, nil)
		case item.Kind == document.MapKind && len(item.Pairs) == 1 && item.Pairs[0].Value.Kind == document.MapKind:
			m.add(item.Pairs[0].Key, item.Pairs[0].Value.Pairs)
		default:
			return wanted, false
		}
	}
	return wanted, true
}

// add adds a mark with its options. It records the first problem in m.problem.
func (m *Marks) add(name string, options []*document.Pair) {
	fail := func(format string, args ...any) {
		if m.problem == "" {
			m.problem = fmt.Sprintf(format, args...)
		}
	}
	known, flags := map[string]*string{}, map[string]*bool{}
	switch {
	case slices.Contains(m.Names(), name):
		fail("%s is in the list twice", name)
	case name == "iptc":
		m.IPTC = true
	case name == "aigc":
		m.AIGC, known["producer"] = true, &m.Producer
	case name == "c2pa":
		m.C2PA, known["certificate"], known["key"], flags["prompt"] = true, &m.Certificate, &m.Key, &m.Prompt
		known["time_stamp_authority"] = &m.TimeStampAuthority
	default:
		fail("%q is unknown; known are iptc, aigc and c2pa", name)
		return
	}
	for _, p := range options {
		text, flag := known[p.Key], flags[p.Key]
		switch {
		case text != nil && p.Value.Kind == document.TextKind && strings.Contains(p.Value.Text, "-----BEGIN"):
			fail("%s: %s is the text of a key or a certificate; give the path of a file, because jobs are kept with their outputs", name, p.Key)
		case text != nil && p.Value.Kind == document.TextKind && p.Value.Text != "":
			*text = p.Value.Text
		case flag != nil && p.Value.Kind == document.BoolKind:
			*flag = p.Value.Bool
		case text != nil:
			fail("%s: %s must be a text", name, p.Key)
		case flag != nil:
			fail("%s: %s must be true or false", name, p.Key)
		default:
			fail("%s: it has no option %s; %s", name, p.Key, optionsOf(known, flags))
		}
	}
	if m.TimeStampAuthority != "" {
		m.checkAuthority()
	}
}

// checkAuthority records a problem with the address of the authority, unless one is recorded already.
func (m *Marks) checkAuthority() {
	if err := timestamp.CheckURL(m.TimeStampAuthority); err != nil && m.problem == "" {
		m.problem = fmt.Sprintf("c2pa: time_stamp_authority: %v", err)
	}
}

// optionsOf describes which options a mark has.
func optionsOf(known map[string]*string, flags map[string]*bool) string {
	names := slices.Sorted(maps.Keys(known))
	if names = slices.AppendSeq(names, maps.Keys(flags)); len(names) == 0 {
		return "it has none"
	}
	return "it has " + strings.Join(names, ", ")
}

// MarksOf returns the marks that a job requests at a stage. Given is false if it requests none there.
func (c *Config) MarksOf(stage string) (m Marks) {
	for _, s := range c.Stages {
		if e := s.Options.node.Lookup("marks"); s.Name == stage && e != nil {
			m.fromNode(e.Value)
		}
	}
	return m
}
