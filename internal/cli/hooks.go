package cli

import (
	"context"
	"io"
	"log/slog"
	"os"

	"latentbeam/internal/config"

	"latentbeam/pipelines"
)

// parseHooks parses on_complete of a job. A job that was read from an output can be somebody else's, so its hooks are left out with
// a warning unless they are allowed.
func parseHooks(cfg *config.Config, allowed bool) (all []hook, err error) {
	if len(cfg.OnComplete) > 0 && !allowed {
		slog.Warn("on_complete is not called: the job comes from an output; --allow-exec allows it", "hooks", len(cfg.OnComplete))
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

// runHooks notifies all hooks that the job is complete. A hook that fails is only a warning, because the output is complete.
func runHooks(ctx context.Context, all []hook, job *pipelines.Job, commandOutput io.Writer) {
	if len(all) == 0 {
		return
	}
	summary, output, err := job.Summary(ctx)
	if err != nil {
		slog.Warn("on_complete is not called: the summary cannot be read", "error", err)
		return
	}
	for _, h := range all {
		if err := h.Run(ctx, hookEvent{Output: output, Run: job.Record.ID, Summary: summary}, commandOutput); err != nil {
			slog.Warn("a hook failed; the output is complete nevertheless", "error", err)
		}
	}
}
