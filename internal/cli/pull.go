package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"

	"latentbeam/stages/weights/checkpoint"

	"latentbeam/internal/config"
	"latentbeam/schemas/fault"
	"latentbeam/stages/weights/hub"
)

// pullLines is the time between two lines of progress if there is no terminal.
const pullLines = 5 * time.Second

func pullCommand(version string) *cobra.Command {
	var o hub.Options
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "pull OWNER/NAME[@REVISION]",
		Short: "Download a model repository: the files that a job needs, verified",
		Long: "Download a model repository from huggingface.co, or from the hub that HF_ENDPOINT names: the files that a job\n" +
			"needs, verified by their SHA-256. A job then uses it as model: OWNER/NAME, without a network. After a pull was\n" +
			"ended, the same command continues it. The cache is that of Python's huggingface_hub (HF_HUB_CACHE, HF_HOME): a file\n" +
			"that one program has downloaded is there for the other. HF_TOKEN, or `hf auth login`, gives access to gated repositories.\n\n" +
			"Exit codes: 0, all files are there; 2, the repository cannot be had like this; 3, the answers of the hub cannot be\n" +
			"used, or the cache cannot be written; 75, the same command may succeed later and continues where it stopped; 130, a signal.",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			r, err := hub.ParseRepo(args[0])
			if err != nil {
				return fault.Usage(err)
			}
			for _, pattern := range o.Include {
				if _, err := path.Match(pattern, ""); err != nil {
					return fault.Usage(fmt.Errorf("--include %q is not a glob pattern", pattern))
				}
			}
			return pull(cmd, version, r, o, asJSON)
		},
	}
	cmd.Flags().StringArrayVar(&o.Include, "include", nil, "download only the weights that match this glob pattern, if the repository has several")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the repository and its downloaded files as JSON (docs/json.md)")
	cmd.Flags().BoolVar(&o.Verify, "verify", false, "check the files that are already downloaded, and download damaged ones again")
	return cmd
}

// pull downloads a repository. A signal ends it; downloaded parts are kept.
func pull(cmd *cobra.Command, version string, r hub.Repo, o hub.Options, asJSON bool) error {
	client, err := hub.NewClient("latentbeam/" + version)
	if err != nil {
		return err
	}
	cache, err := hub.DefaultCache()
	if err != nil {
		return fault.Usage(err)
	}
	signals, stopSignals := catchSignals()
	defer stopSignals()
	ctx, stopWaiting := untilSignal(cmd.Context(), signals, func(s os.Signal) error {
		return interrupted(fmt.Sprintf("pull %s: %s; the same command continues where it stopped", r, s))
	})
	defer stopWaiting()
	display := &pullDisplay{w: cmd.ErrOrStderr(), notices: cmd.ErrOrStderr()}
	stopNotices := notifyWhileWaiting(cmd.ErrOrStderr(), func() string {
		return fmt.Sprintf("waiting for %s (HF_ENDPOINT names another hub) ...", client.Endpoint())
	})
	defer stopNotices()
	o.Begin = func(of *hub.Progress) {
		stopNotices()
		display.start(of)
	}
	client.Retrying = func(err error, tried, of int) {
		stopNotices()
		fmt.Fprintf(display.notices, "latentbeam: %s: %v; trying again (%d of %d; HF_ENDPOINT names another hub)\n", r, err, tried+1, of)
	}
	result, err := client.Pull(ctx, cache, r, o)
	display.stop()
	if why := interrupted(""); err != nil && errors.As(context.Cause(ctx), &why) {
		return why
	}
	if err != nil {
		return err
	}
	if asJSON {
		return printJSON(cmd.OutOrStdout(), factsOfPull(result))
	}
	return showPulled(cmd.OutOrStdout(), result)
}

// showPulled prints what was downloaded and how to use it.
func showPulled(w io.Writer, r *hub.Pulled) error {
	out := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(out, "%s\n", r.Repo)
	fmt.Fprintf(out, "  commit\t%s\n", r.Commit)
	licence := cmp.Or(r.Licence, "the repository names none")
	if r.Terms != "" {
		licence += ", " + r.Terms
	}
	fmt.Fprintf(out, "  licence\t%s\n", oneLine(licence))
	fmt.Fprintf(out, "  files\t%d, %s; %d were fetched\n", len(r.Files), sizeOf(r.Files), r.Fetched)
	if n := len(r.LeftOut); n > 0 {
		var names []string
		for _, f := range r.LeftOut {
			names = append(names, f.Path)
		}
		fmt.Fprintf(out, "  left out\t%d, %s: %s\n", n, sizeOf(r.LeftOut), oneLine(strings.Join(firstOf(names, 5), ", ")))
	}
	fmt.Fprintf(out, "  in\t%s\n", r.Dir)
	pickles := false
	for _, f := range r.Files {
		if checkpoint.IsPickleName(f.Path) {
			fmt.Fprintf(out, "  pickle\tlatentbeam convert %s/%s OUT.safetensors\n", r.Dir, oneLine(f.Path))
			pickles = true
		}
	}
	if !pickles {
		fmt.Fprintf(out, "  to use it\tmodel: %s\n", r.Repo)
	}
	return out.Flush()
}

func sizeOf(files []hub.RepoFile) config.ByteSize {
	total := int64(0)
	for _, f := range files {
		total += f.Size
	}
	return config.ByteSize(total)
}

// pullDisplay shows the progress of a download: a bar on a terminal, else a line every few seconds.
type pullDisplay struct {
	w        io.Writer
	notices  io.Writer // for other lines: they are printed above the bar
	stopping chan struct{}
	stopped  sync.WaitGroup
}

// start starts the display. It is called once, before the first download.
func (p *pullDisplay) start(of *hub.Progress) {
	p.stopping = make(chan struct{})
	began, before := time.Now(), of.Moved.Load()
	every, show, end := pullLines, func() {
		moved := of.Moved.Load()
		rate := float64(moved-before) / time.Since(began).Seconds()
		fmt.Fprintf(p.w, "%s of %s, %s/s\n", config.ByteSize(moved), config.ByteSize(of.Total), config.ByteSize(rate))
	}, func() {}
	if isTerminal(p.w) && of.Total > 0 {
		container := mpb.New(mpb.WithOutput(unwrapWriter(p.w)), mpb.WithWidth(60))
		bar := container.AddBar(of.Total,
			mpb.PrependDecorators(decor.Counters(decor.SizeB1000(0), "% .1f / % .1f ")),
			mpb.AppendDecorators(decor.Percentage(), decor.Name("  "), decor.AverageSpeed(decor.SizeB1000(0), "% .1f"),
				decor.Name("  ETA "), decor.AverageETA(decor.ET_STYLE_GO)))
		p.notices = container // prints above the bar
		every, show = 200*time.Millisecond, func() { bar.SetCurrent(of.Moved.Load()) }
		end = func() { bar.Abort(false); container.Wait() }
	}
	p.stopped.Go(func() {
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				show()
			case <-p.stopping:
				if of.Moved.Load() > before {
					show()
				}
				end()
				return
			}
		}
	})
}

// stop stops the display and waits until it has printed its last line.
func (p *pullDisplay) stop() {
	if p.stopping != nil {
		close(p.stopping)
		p.stopped.Wait()
	}
}
