package runners

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"regexp"
	"slices"
	"strings"
	"time"

	jobpb "github.com/apache/beam/sdks/v2/go/pkg/beam/model/jobmanagement_v1"
	pipepb "github.com/apache/beam/sdks/v2/go/pkg/beam/model/pipeline_v1"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/runners/universal/runnerlib"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/structpb"

	"latentbeam/schemas/fault"
)

// client is a client of Beam's job servers. Unlike Beam's own client it sends every option of the engine, stages no
// file, returns the id of the job, and can cancel the job.
type client struct {
	endpoint string
	conn     *grpc.ClientConn // closed by close; nil: none
	jobs     jobpb.JobServiceClient
	pause    time.Duration // between retries while the server does not answer
	patience time.Duration // how long a server may be silent while the job runs
}

// Times of the client.
const (
	dialTime     = 30 * time.Second // for the first answer
	submitTime   = 10 * time.Minute // a server may first have to load its classes
	cancelTime   = 3 * time.Second  // short, because this process is ending
	askPause     = 2 * time.Second
	lostPatience = 5 * time.Minute
)

// maxMessage bounds one answer of a server in bytes; a pipeline and its errors are small.
const maxMessage = 64 << 20

// dial returns a client of the job server at endpoint. It does not wait for the server.
func dial(endpoint string) (*client, error) {
	conn, err := grpc.NewClient(endpoint, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage), grpc.MaxCallSendMsgSize(maxMessage)))
	if err != nil {
		return nil, err
	}
	c := clientOf(endpoint, jobpb.NewJobServiceClient(conn))
	c.conn = conn
	return c, nil
}

// clientOf returns a client for a connected job server.
func clientOf(endpoint string, jobs jobpb.JobServiceClient) *client {
	return &client{endpoint: endpoint, jobs: jobs, pause: askPause, patience: lostPatience}
}

func (c *client) close() {
	if c.conn != nil {
		c.conn.Close()
	}
}

// unreachable returns an error that names the server if err means that it does not answer, else err.
func (c *client) unreachable(err error) error {
	if s := status.Code(err); s == codes.Unavailable || s == codes.DeadlineExceeded {
		return fault.TryAgain(fmt.Errorf("no job server answers at %s: start one there, or mend runner.endpoint (%w)",
			c.endpoint, err))
	}
	return err
}

// checkServer checks that a job server answers.
func (c *client) checkServer(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, dialTime)
	defer cancel()
	_, err := c.jobs.GetJobs(ctx, &jobpb.GetJobsRequest{}, grpc.WaitForReady(true))
	if status.Code(err) == codes.Unimplemented { // it answers, so it is a job server
		return nil
	}
	return c.unreachable(err)
}

// submit starts a job and returns the engine's id of the job.
func (c *client) submit(ctx context.Context, name string, p *pipepb.Pipeline, options map[string]any) (id string, err error) {
	raw, err := structpb.NewStruct(options)
	if err != nil {
		return "", fmt.Errorf("options of the engine: %w", err)
	}
	if err := c.checkServer(ctx); err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, submitTime)
	defer cancel()
	prepared, err := c.jobs.Prepare(ctx, &jobpb.PrepareJobRequest{Pipeline: p, PipelineOptions: raw, JobName: name})
	if err != nil {
		return "", fmt.Errorf("prepare the job: %w", c.unreachable(err))
	}
	// A server starts no job before it has had a session that stages files, even if there are none.
	if at := prepared.GetArtifactStagingEndpoint().GetUrl(); at != "" {
		if _, err := runnerlib.Stage(ctx, prepared.GetPreparationId(), at, "/dev/null", prepared.GetStagingSessionToken()); err != nil {
			return "", fmt.Errorf("open the session that stages no files at %s: %w", at, err)
		}
	}
	run, err := c.jobs.Run(ctx, &jobpb.RunJobRequest{PreparationId: prepared.GetPreparationId(),
		RetrievalToken: prepared.GetStagingSessionToken()})
	if err != nil {
		return "", fmt.Errorf("start the job: %w", c.unreachable(err))
	}
	return run.GetJobId(), nil
}

// wait waits for the end of a job. The end of ctx does not cancel the job; see cancel.
func (c *client) wait(ctx context.Context, id string) error {
	why := failure{server: c.endpoint}
	for silent := time.Now(); ; {
		state, err := c.follow(ctx, id, &why, func() { silent = time.Now() })
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err == nil && terminal(state) {
			return why.err(state)
		}
		if err != nil && status.Code(err) == codes.NotFound {
			return fault.TryAgain(fmt.Errorf("the job server at %s does not know job %s any more: run again, which finds what "+
				"was done", c.endpoint, id))
		}
		if time.Since(silent) > c.patience {
			return fault.TryAgain(fmt.Errorf("the job server at %s has been silent for %v, job %s may be running: run again "+
				"later, which finds what was done (%w)", c.endpoint, c.patience, id, err))
		}
		select {
		case <-time.After(c.pause):
		case <-ctx.Done():
		}
	}
}

// follow reads messages and states of a job until the job or the connection ends. It calls heard for each
// answer of the server.
func (c *client) follow(ctx context.Context, id string, why *failure, heard func()) (jobpb.JobState_Enum, error) {
	streaming, end := context.WithCancel(ctx)
	defer end()
	// Also poll the state: a job server that has lost one listener does not notify the others of the end.
	go c.untilEnd(streaming, id, end)
	stream, err := c.jobs.GetMessageStream(streaming, &jobpb.JobMessagesRequest{JobId: id})
	var ended jobpb.JobState_Enum // according to the stream
	for err == nil {
		var m *jobpb.JobMessagesResponse
		if m, err = stream.Recv(); err != nil {
			break
		}
		heard()
		if text := m.GetMessageResponse(); text != nil {
			why.add(text)
		}
		if s := m.GetStateResponse(); s != nil && terminal(s.GetState()) {
			ended = s.GetState()
			time.AfterFunc(c.pause, end)
		}
		if terminal(ended) && (ended != jobpb.JobState_FAILED || why.known()) { // prism sends the reason after the state
			return ended, nil
		}
	}
	if terminal(ended) {
		return ended, nil
	}
	if err != nil && !errors.Is(err, io.EOF) {
		slog.Debug("the stream of messages has ended", "job", id, "error", err)
	}
	answer, err := c.jobs.GetState(ctx, &jobpb.GetJobStateRequest{JobId: id})
	if err == nil {
		heard()
	}
	return answer.GetState(), err
}

// untilEnd polls the state and calls end shortly after the job has ended, so that the stream of messages can report it first.
func (c *client) untilEnd(ctx context.Context, id string, end func()) {
	for ended := 0; ended < 2; {
		select {
		case <-time.After(c.pause):
		case <-ctx.Done():
			return
		}
		answer, err := c.jobs.GetState(ctx, &jobpb.GetJobStateRequest{JobId: id})
		if err == nil && terminal(answer.GetState()) {
			ended++
		}
	}
	end()
}

// state returns the state of a job.
func (c *client) state(ctx context.Context, id string) (jobpb.JobState_Enum, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTime)
	defer cancel()
	answer, err := c.jobs.GetState(ctx, &jobpb.GetJobStateRequest{JobId: id}, grpc.WaitForReady(true))
	return answer.GetState(), c.unreachable(err)
}

// running reports whether the job is running. A job that the server no longer knows has ended.
func (c *client) running(ctx context.Context, id string) (bool, error) {
	state, err := c.state(ctx, id)
	switch status.Code(err) {
	case codes.NotFound, codes.InvalidArgument, codes.Unknown, codes.Internal: // servers use different codes for an unknown job
		return false, nil
	}
	return err == nil && !terminal(state), err
}

// cancel cancels a job, even if ctx has ended.
func (c *client) cancel(ctx context.Context, id string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cancelTime)
	defer cancel()
	_, err := c.jobs.Cancel(ctx, &jobpb.CancelJobRequest{JobId: id})
	return c.unreachable(err)
}

func terminal(s jobpb.JobState_Enum) bool {
	switch s {
	case jobpb.JobState_DONE, jobpb.JobState_FAILED, jobpb.JobState_CANCELLED, jobpb.JobState_DRAINED, jobpb.JobState_UPDATED:
		return true
	}
	return false
}

// failure collects a server's messages about a failed job.
type failure struct {
	engine string // "": an engine with a job server
	server string // address of the job server
	last   string // text of the last error
	marked string // reason in the last text that one of our DoFns has marked
	nobody string // last address that did not answer the job server, from Java's message
}

// maxReason is how many bytes of an engine's text an error shows at most.
const maxReason = 2000

// add records a message. Errors of our own DoFns are marked, because an engine wraps them in pages of its own text.
func (f *failure) add(m *jobpb.JobMessage) {
	text := m.GetMessageText()
	if m.GetImportance() >= jobpb.JobMessage_JOB_MESSAGE_ERROR {
		f.last = text
	}
	if reason := fault.Bracketed(text); reason != "" {
		f.marked = reason
	}
	if address := noAnswer.FindString(text); address != "" {
		f.nobody = address
	}
	slog.Debug("the engine says", "importance", m.GetImportance().String(), "text", text)
}

// refused matches the last message of a job that did not reach its cluster.
var refused = regexp.MustCompile(`ConnectException|ConnectTimeoutException|UnknownHostException|NoRouteToHostException`)

// noAnswer matches Java's messages about a server that did not answer, with its address if given.
var noAnswer = regexp.MustCompile(`(?i)(connection refused|connection timed out|unknownhostexception|no route to host): [^\s,]+`)

// known reports whether a reason was received.
func (f *failure) known() bool { return f.last != "" || f.marked != "" }

// err returns the error of a job that has ended in state s.
func (f *failure) err(s jobpb.JobState_Enum) error {
	if s == jobpb.JobState_DONE {
		return nil
	}
	if f.marked != "" {
		return errors.New(f.marked)
	}
	reason := cmp.Or(f.last, "the engine gave no reason; its log may have one")
	text, _, _ := strings.Cut(reason, "\n\tat ") // without Java's stack
	if len(text) > maxReason {
		text = text[:maxReason] + "…"
	}
	if s == jobpb.JobState_FAILED && f.nobody != "" && refused.MatchString(reason) {
		return fault.TryAgain(fmt.Errorf("the job server at %s answers, but the cluster that it sends jobs to does not (%s): start the "+
			"cluster, or start the job server with the right address (Flink: --flink-master=JOBMANAGER:8081), and run again", f.server, f.nobody))
	}
	err := fmt.Errorf("job %s: %s", strings.ToLower(s.String()), text)
	if s == jobpb.JobState_FAILED && f.engine == "" && died(reason) {
		err = fmt.Errorf("%w\n  a worker has died, and the engine did not start another: give the cluster a restart strategy "+
			"(restart-strategy.type: fixed-delay, attempts: 1000, delay: 3 s) and run again", err)
		return fault.TryAgain(err)
	}
	return err
}

// died reports whether an engine's text means that a worker died.
func died(text string) bool {
	return slices.ContainsFunc([]string{"client cancelled", "call already cancelled", "call already closed",
		"NoRestartBackoffTimeStrategy", "Connection reset", "was closed", "hung up"},
		func(sign string) bool { return strings.Contains(text, sign) })
}
