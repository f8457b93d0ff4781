package cli

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"slices"
	"syscall"

	"github.com/spf13/cobra"

	"latentbeam/internal/cluster"
	"latentbeam/internal/config"
	"latentbeam/pipelines"
	"latentbeam/pipelines/hardware"
	"latentbeam/pipelines/remote"
	"latentbeam/runners"
	"latentbeam/schemas/fault"
	"latentbeam/stages"
)

// workerFlags are the flags of `latentbeam worker`.
type workerFlags struct {
	listen, token, device string
	pool                  string // address at which Beam engines can ask for workers; "": none
	workers, threads      int
	programs              commands // programs of jobs that may run
}

func workerCommand(specs []stages.Spec) *cobra.Command {
	var f workerFlags
	cmd := &cobra.Command{
		Use:   "worker --token-file FILE",
		Short: "Lend this host's devices to jobs that name it in resources.hosts",
		Long: "Lend this host's devices to jobs that name it in resources.hosts.\n\n" +
			"Whoever knows the token can run jobs here with the rights of this process. The token is never sent. All traffic is\n" +
			"encrypted, except the data that GPUs of several hosts exchange by NCCL (resources.nccl in the job).\n" +
			"Programs of jobs (stage exec) are refused without --allow-exec: with it, whoever knows the token has a shell here;\n" +
			"--allow-exec=\"python3 /opt/generate.py\" allows that command alone.\n" +
			"The model must lie at the same path as on the host of the job. Runs until SIGINT or SIGTERM.\n\n" +
			"With --pool it serves an engine of Beam instead (runner: {environment: external, pool: ADDR}). It asks for no\n" +
			"password: whoever reaches the address runs jobs here.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.pool != "" {
				return runPool(cmd, f, specs)
			}
			gpus := f.workers
			if !cmd.Flags().Changed("workers") {
				f.workers, gpus = 1, 0 // all GPUs
			}
			return runWorker(cmd, f, gpus, specs)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.listen, "listen", "127.0.0.1:7447",
		"address to listen on; the default serves this machine only")
	flags.StringVar(&f.token, "token-file", "", "file with the secret that job and workers share (required)")
	flags.StringVar(&f.device, "device", "auto", "cpu, gpu, or auto: GPUs where there are any")
	flags.IntVar(&f.workers, "workers", 0, "devices to lend (default all GPUs, or one worker of the CPU)")
	flags.IntVar(&f.threads, "threads", 0, "threads of all devices together (default all)")
	flags.StringVar(&f.pool, "pool", "", "host:port: serve an engine of Beam there; of the other flags only --allow-exec has an effect then")
	flags.Var(&f.programs, allowExec, "run the programs (stage exec) of a job: with =\"COMMAND ARG ...\" that one alone, which may be "+
		"given again; a program can do all that you can")
	flags.Lookup(allowExec).NoOptDefVal = anyCommand
	return cmd
}

// runPool listens for Beam engines and starts a worker in this process for each request.
func runPool(cmd *cobra.Command, f workerFlags, specs []stages.Spec) error {
	pool, err := runners.Listen(f.pool)
	if err != nil {
		return notListening("--pool", f.pool, err)
	}
	remote := pipelines.NewWorker(f.programs.trusted(specs, "the worker"), release)
	remote.Serve()
	defer remote.Close()
	runners.Init()
	ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	fmt.Fprintf(cmd.OutOrStdout(), "a pool of workers at %s\n", pool.Addr())
	if err := pool.Serve(ctx); ctx.Err() == nil {
		return err
	}
	return nil
}

func runWorker(cmd *cobra.Command, f workerFlags, gpus int, specs []stages.Spec) error {
	if f.token == "" {
		return fault.Usage(errors.New("--token-file is missing: job and workers need a file with the same secret; " +
			"make one with: head -c 32 /dev/urandom | base64 > token"))
	}
	token, err := cluster.ReadToken(f.token)
	if err != nil {
		return fault.Usage(err)
	}
	if f.workers < 1 || f.workers > config.MaxWorkers {
		return fault.Usage(fmt.Errorf("--workers is %d: give 1 to %d", f.workers, config.MaxWorkers))
	}
	if !slices.Contains([]string{"auto", "cpu", "gpu"}, f.device) {
		return fault.Usage(fmt.Errorf("--device is %q: give auto, cpu or gpu", f.device))
	}
	devices, closeDevices, err := hardware.Local{Device: f.device, Workers: f.workers, GPUs: gpus, Threads: f.threads,
		Owner: "worker"}.Open()
	if fault.ClassOf(err) != fault.ClassFatal {
		err = fault.Usage(err)
	}
	if err != nil {
		return err
	}
	defer closeDevices()
	node, err := cluster.Listen(f.listen, token)
	if err != nil {
		return notListening("--listen", f.listen, err)
	}
	defer node.Close()
	ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if !cluster.IsLoopback(node.Addr()) {
		fmt.Fprintln(cmd.ErrOrStderr(), "other hosts can reach this worker: who knows the token can run jobs here")
	}
	fmt.Fprintf(cmd.OutOrStdout(), "listening at %s\n", node.Addr())
	w := remote.Worker{Node: node, Devices: devices, Specs: f.programs.trusted(specs, "the worker")}
	return w.Serve(ctx)
}

// notListening returns the error for an address that cannot be used: a malformed one is a usage error, others may be free later.
func notListening(flag, addr string, err error) error {
	var form *net.AddrError
	if errors.As(err, &form) {
		return fault.Usage(fmt.Errorf("%s is %q: %s; write host:port, such as 0.0.0.0:7447", flag, addr, form.Err))
	}
	what := "give another port"
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		what = "is another worker there? Give another port"
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		what = "this host does not have that address now; 0.0.0.0 stands for all that it has"
	}
	return fault.TryAgain(fmt.Errorf("%s: %w; %s", flag, err, what))
}
