package output

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"log/slog"
	"path"
	"reflect"
	"slices"

	"latentbeam/internal/config"
	"latentbeam/internal/engine"
	"latentbeam/internal/engine/host"
	"latentbeam/internal/engine/keys"
	"latentbeam/internal/media/mp4"
	"latentbeam/internal/storage/ledger"
	"latentbeam/internal/storage/store"
	"latentbeam/pipelines/jobfile"
	"latentbeam/schemas"
	"latentbeam/schemas/fault"
	"latentbeam/stages"
)

// maxEarlierLooks limits the lists of stages that only measure which are tried to find rows of the output.
const maxEarlierLooks = 8

// earlierKeys finds rows that an output has under keys of earlier releases. Those keys also depended on the stages that only measure.
type earlierKeys struct {
	config    *config.Config
	specs     []stages.Spec
	engine    *engine.Engine
	start     *jobfile.Start // start of the run; find sets Looks and Shown
	scoreOnly bool           // the run only computes measures of finished rows
}

// find sets the engine's earlier key forms. They contain the stages that only measure of this job and of the jobs that job.json of the
// output records. So rows that an earlier release finished count as done.
func (o *earlierKeys) find(ctx context.Context, s store.Store, l *ledger.Ledger) error {
	r := &o.engine.Rules
	r.Earlier, r.Known, o.start.Looks, o.start.Shown = nil, nil, []keys.Looks{}, nil
	if o.scoreOnly {
		o.start.Shown = host.MeasuresOfVideos(r.Steps)
	}
	if l.Len() == 0 {
		return r.Seal()
	}
	lists, shown, legacy, err := o.recordedLooks(ctx, s)
	if err != nil {
		return err
	}
	for _, m := range shown {
		if !slices.ContainsFunc(o.start.Shown, func(own stages.Measure) bool { return own.Name == m.Name }) {
			o.start.Shown = append(o.start.Shown, m)
		}
	}
	o.start.Looks = append(o.start.Looks, lists...)
	own, err := host.LookedAt(o.config, o.specs)
	if err != nil {
		return err
	}
	program := slices.ContainsFunc(r.Steps, func(s stages.Step) bool { return s.MeasuresOnly && s.Spec.Program != nil })
	if len(own) > 0 && (legacy || program || len(lists) > 0) && own[0].Program() == "" {
		lists = append([]keys.Looks{own[0]}, lists...)
	}
	for _, list := range lists {
		list = o.declared(list)
		if len(r.Earlier) <= maxEarlierLooks && !slices.ContainsFunc(r.Earlier, func(other keys.Looks) bool { return reflect.DeepEqual(list, other) }) {
			r.Earlier = append(r.Earlier, list)
		}
	}
	if len(r.Earlier) > 0 {
		r.Known = func(key schemas.Key, _ *stages.Element, form int) (bool, error) { return o.known(ctx, l, key, form) }
	}
	return r.Seal()
}

// recordedLooks returns the lists in job.json. If an earlier release wrote the file (legacy), it returns the lists of its YAML.
func (o *earlierKeys) recordedLooks(ctx context.Context, s store.Store) (lists []keys.Looks, shown []stages.Measure, legacy bool, err error) {
	data, err := store.ReadFile(ctx, s, jobfile.Name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, true, nil
	}
	if err != nil {
		return nil, nil, true, err
	}
	var last jobfile.Start
	if json.Unmarshal(data, &last) != nil {
		return nil, nil, true, nil
	}
	if last.Looks != nil {
		return last.Looks, last.Shown, false, nil
	}
	cfg, err := last.Config()
	if err == nil {
		lists, err = host.LookedAt(cfg, o.specs)
	}
	if err != nil {
		slog.Warn("the job that made the output cannot be read: rows whose keys have other stages that only measure are new", "error", err)
	}
	return lists, last.Shown, true, nil
}

// declared clears Program in the entries of a list that the job declares as stages that only measure.
func (o *earlierKeys) declared(list keys.Looks) keys.Looks {
	list = slices.Clone(list)
	for i, l := range list {
		for _, s := range o.engine.Schedule.Steps {
			if l.Program != "" && s.MeasuresOnly && s.Spec.Program != nil && (s.Name == l.Program || sameCommand(l.Options, string(s.Options))) {
				list[i].Program = ""
			}
		}
	}
	return list
}

// sameCommand reports whether the options of two programs have the same command.
func sameCommand(a, b string) bool {
	var one, other struct {
		Command []string `json:"command"`
	}
	return json.Unmarshal([]byte(a), &one) == nil && json.Unmarshal([]byte(b), &other) == nil && slices.Equal(one.Command, other.Command)
}

// known reports whether the output has a usable record of a row under its key of the given form.
func (o *earlierKeys) known(ctx context.Context, l *ledger.Ledger, key schemas.Key, form int) (bool, error) {
	ref, status, err := l.Lookup(ledger.Key(key))
	if err != nil {
		return false, err
	}
	if status == ledger.Absent {
		return o.engine.Earlier != nil && o.engine.Earlier(key), nil
	}
	if form == 0 {
		return true, nil
	}
	looks := o.engine.Rules.Earlier[form-1]
	if status == ledger.Done && looks.Program() == "" {
		return true, nil
	}
	rec, err := l.Read(ref)
	if err != nil {
		return false, err
	}
	var r schemas.Result
	if json.Unmarshal(rec.Row, &r) != nil {
		return false, nil // it is computed again
	}
	if r.Failure != nil { // if only a measure failed, the video is a valid result in this release
		return r.Failure.Class == fault.ClassDropped.String() || !slices.ContainsFunc(looks, func(s keys.Looked) bool {
			return s.Stage == r.Failure.Stage || s.Program == r.Failure.Stage
		}), nil
	}
	if r.Video == nil || r.Video.Poster == "" || path.Ext(r.Video.Path) != ".mp4" {
		return false, nil // a program may have made the file
	}
	data, err := store.ReadFile(ctx, o.engine.Store, r.Video.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil && mp4.HasLayoutOfMux(data), err
}
