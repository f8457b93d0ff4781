package cli

import (
	"context"
	"io"
	"log/slog"
	"os"

	"latentbeam/internal/config"

	"latentbeam/pipelines"
)

// hooksOf reads on_complete of a job. Where it comes from an output, nobody has said that its commands may run: they are
// left out unless allowed.
func hooksOf(cfg *config.Config, allowed bool) (all []hook, err error) {
	if len(cfg.OnComplete) > 0 && !allowed {
		slog.Warn("on_complete is not called: the job comes from an output; --allow-exec lets it", "hooks", len(cfg.OnComplete))
		return nil, nil
	}
	for _, text := range cfg.OnComplete {
		h, err := parseHook(text, os.LookupEnv)
		if err != nil {
			return nil, cfg.Errorf("on_complete", "%v", err)
		}
		all = append(all, h)
	}
	return all, nil
}

// runHooks tells all hooks that the job is complete. The output is whole: a hook that fails is a warning.
func runHooks(ctx context.Context, all []hook, job *pipelines.Job, words io.Writer) {
	if len(all) == 0 {
		return
	}
	summary, output, err := job.Summary(ctx)
	if err != nil {
		slog.Warn("on_complete is not called: the summary cannot be read", "error", err)
		return
	}
	for _, h := range all {
		if err := h.Run(ctx, hookEvent{Output: output, Run: job.Record.ID, Summary: summary}, words); err != nil {
			slog.Warn("a hook failed, the output is complete all the same", "error", err)
		}
	}
}
