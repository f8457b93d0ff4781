package catalog

import (
	"slices"
	"testing"

	"latentbeam/schemas"
	"latentbeam/stages"
)

// TestCapabilitiesFitTogether: the capabilities that a stage states are consistent: fields that need each other are all set,
// and their values agree.
func TestCapabilitiesFitTogether(t *testing.T) {
	for _, s := range All() {
		stage, err := s.New(modelOf(t, s), least(t, s))
		if err != nil {
			t.Fatal(err)
		}
		for _, wrong := range inconsistent(s, stage.Capabilities()) {
			t.Errorf("%s: %s", s.Name, wrong)
		}
	}
}

// TestInconsistentCapabilitiesAreSeen: the check of the test above finds each kind of inconsistency.
func TestInconsistentCapabilitiesAreSeen(t *testing.T) {
	loading := stages.Loading{Shards: func() int { return 2 }, Stream: func(int) {}}
	spec := stages.Spec{Params: []stages.Param{stages.ParamSeed}}
	for want, can := range map[string]stages.Capabilities{
		"a column stands twice":                   {Params: []stages.Param{stages.ParamSeed}},
		"half of Spread is missing":               {Spread: &stages.Spread{}},
		"weights are loaded by nothing":           {Loading: &stages.Loading{}},
		"shards need LoadShard, Hold and Spread":  {Loading: &loading},
		"Stream needs Staying, and the other way": {Loading: &loading},
	} {
		if got := inconsistent(spec, can); !slices.Contains(got, want) {
			t.Errorf("%q is not among %q", want, got)
		}
	}
}

// inconsistent lists contradictions in the capabilities of a stage.
func inconsistent(s stages.Spec, can stages.Capabilities) (wrong []string) {
	check := func(ok bool, why string) {
		if !ok {
			wrong = append(wrong, why)
		}
	}
	columns := slices.Concat(s.Params, can.Params)
	slices.Sort(columns)
	check(len(slices.Compact(slices.Clone(columns))) == len(columns), "a column stands twice")
	if spread := can.Spread; spread != nil {
		check(spread.Width != nil && spread.Run != nil, "half of Spread is missing")
		check(spread.Width == nil || spread.Width(&schemas.PromptRow{Height: 16, Width: 16, NumFrames: 1}) <= 1,
			"without options it is for one device, or for as many as are of use")
	}
	l := can.Loading
	if l == nil {
		return wrong
	}
	check(l.Load != nil, "weights are loaded by nothing")
	cut := l.Shards != nil
	check(cut == (l.LoadShard != nil) && cut == (l.Hold != nil) && (!cut || can.Spread != nil),
		"shards need LoadShard, Hold and Spread")
	check((l.Staying == nil) == (l.Stream == nil), "Stream needs Staying, and the other way")
	if l.Staying != nil {
		stay, of := l.Staying()
		check(stay == of, "without options all blocks stay")
	}
	check(can.Shards() == 1, "without options each device holds all")
	return wrong
}
