package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"latentbeam/internal/config/document"
	"latentbeam/internal/media/timestamp"
)

// Marks are the marks of synthetic media that a job asks for, the option marks of encode_video.
type Marks struct {
	Given    bool   // else the run decides
	IPTC     bool   // XMP that says by IPTC's words how the media came to be
	AIGC     bool   // the key AIGC of GB 45438-2025
	Producer string // for AIGC: who provides the service; "": it is not said
	C2PA     bool   // a signed manifest of content credentials
	Prompt   bool   // for C2PA: the manifest says the prompt and the parameters
	// Certificate and Key are the files for C2PA: a chain of certificates and the key of the first, PEM both. Records say the digest of
	// the certificate alone.
	Certificate, Key string
	// TimeStampAuthority is for C2PA: the address of the authority that gives each signature a time stamp (RFC 3161); "": none does.
	TimeStampAuthority string

	wrong string // what is wrong with the list, "" for nothing
}

// Wrong says what is wrong with the list of a job, "" for nothing.
func (m Marks) Wrong() string { return m.wrong }

// Equal reports whether both ask for the same marks, whoever signs.
func (m Marks) Equal(o Marks) bool {
	for _, one := range []*Marks{&m, &o} {
		one.Given, one.Certificate, one.Key = false, "", ""
	}
	return m == o
}

// Names lists the marks.
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

// NoMarks is the value that asks for none.
const NoMarks = "none"

// String is the value in a job, without the files that sign: "none", or the names with their options.
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

// ParseMarks reads names with commas between them, as a flag has them, or none. See Wrong.
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

// add adds a mark with its options. What is wrong with it is kept; the first counts.
func (m *Marks) add(name string, options []*document.Pair) {
	fail := func(format string, args ...any) {
		if m.wrong == "" {
			m.wrong = fmt.Sprintf(format, args...)
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

// checkAuthority keeps what is wrong with the address of the authority, if nothing else is.
func (m *Marks) checkAuthority() {
	if err := timestamp.CheckURL(m.TimeStampAuthority); err != nil && m.wrong == "" {
		m.wrong = fmt.Sprintf("c2pa: time_stamp_authority: %v", err)
	}
}

// optionsOf says which options a mark has.
func optionsOf(known map[string]*string, flags map[string]*bool) string {
	names := slices.Sorted(maps.Keys(known))
	if names = slices.AppendSeq(names, maps.Keys(flags)); len(names) == 0 {
		return "it has none"
	}
	return "it has " + strings.Join(names, ", ")
}

// MarksOf returns the marks that a job asks for at a stage; Given is false where it does not.
func (c *Config) MarksOf(stage string) (m Marks) {
	for _, s := range c.Stages {
		if e := s.Options.node.Lookup("marks"); s.Name == stage && e != nil {
			m.fromNode(e.Value)
		}
	}
	return m
}
